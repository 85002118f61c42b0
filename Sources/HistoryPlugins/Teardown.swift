import Glibc

/// The steps by which a coprocess is brought to its end: its standard input is closed already,
/// then it has time, SIGTERM, time again, and SIGKILL.
///
/// It begins when the plugin is to stop, or when it has closed a pipe without which it is of no
/// use; and it is over when the process has ended and all it wrote has been read.
struct Teardown: Sendable {
    enum Cause: String, Sendable {
        case stop = "was asked to stop"
        case closedInput = "closed its standard input"
        case closedOutput = "closed its standard output"
    }

    enum Step: Sendable, Hashable {
        case none
        /// Give it time.
        case wait
        /// Send the signal to its group, and give it time.
        case signal(Int32)
        /// Nothing is left to be waited for.
        case finish
    }

    private var processRuns = true
    private var outputIsOpen = true
    private var errorsAreOpen = true
    private var cause: Cause?
    private var steps: ArraySlice<Step> = [.wait, .signal(SIGTERM), .signal(SIGKILL)]
    private var isDue = false

    /// Why it had to be brought to its end; nil if it ended by itself (of which a pipe that is
    /// closed may have been the first sign).
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
