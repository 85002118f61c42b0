import Glibc

/// The steps that end a coprocess: its standard input is closed already, then it gets time, SIGTERM, time
/// again, and SIGKILL.
///
/// The teardown starts when the plugin is to stop, or when it has closed a pipe that it needs. It is over when
/// the process has ended and all its output has been read.
struct Teardown: Sendable {
    enum Cause: String, Sendable {
        case stop = "was asked to stop"
        case closedInput = "closed its standard input"
        case closedOutput = "closed its standard output"
    }

    enum Step: Sendable, Hashable {
        case none
        /// Wait for a while.
        case wait
        /// Send the signal to the process group, and wait for a while.
        case signal(Int32)
        /// Nothing is left to wait for.
        case finish
    }

    private var processRuns = true
    private var outputIsOpen = true
    private var errorsAreOpen = true
    private var cause: Cause?
    private var steps: ArraySlice<Step> = [.wait, .signal(SIGTERM), .signal(SIGKILL)]
    private var isDue = false

    /// Why it had to be ended; nil if it ended by itself (a closed pipe may have been the first sign of that).
    private(set) var reason: Cause?

    mutating func begin(_ cause: Cause) {
        guard self.cause == nil else { return }
        self.cause = cause
        isDue = true
    }

    mutating func processEnded() { processRuns = false }

    mutating func outputEnded() {
        outputIsOpen = false
        begin(.closedOutput)
    }

    mutating func errorsEnded() { errorsAreOpen = false }

    mutating func graceIsOver() {
        isDue = true
        if processRuns { reason = cause }
    }

    mutating func nextStep() -> Step {
        if !processRuns && !outputIsOpen && !errorsAreOpen { return .finish }
        guard isDue, processRuns else { return .none }
        isDue = false
        return steps.popFirst() ?? .none
    }
}
