import Glibc

/// The steps by which a coprocess is brought to its end: its standard input is closed already,
/// then it has time, SIGTERM, time again, and SIGKILL.
///
/// It begins when the plugin is to stop, or when it has closed its standard output, without which
/// it is of no use; and it is over when the process has ended and all it wrote has been read.
struct Teardown: Sendable {
    enum Step: Sendable, Hashable {
        case none
        /// Give it time.
        case wait
        /// Send the signal to its group, and give it time.
        case signal(Int32)
        /// Nothing is left to be waited for.
        case finish
    }

    private var process = true
    private var output = true
    private var errors = true
    private var hasBegun = false
    private var steps: ArraySlice<Step> = [.wait, .signal(SIGTERM), .signal(SIGKILL)]
    private var isDue = false

    mutating func begin() {
        guard !hasBegun else { return }
        hasBegun = true
        isDue = true
    }

    mutating func processEnded() { process = false }

    mutating func outputEnded() {
        output = false
        begin()
    }

    mutating func errorsEnded() { errors = false }

    mutating func graceIsOver() { isDue = true }

    mutating func nextStep() -> Step {
        if !process && !output && !errors { return .finish }
        guard isDue, process else { return .none }
        isDue = false
        return steps.popFirst() ?? .none
    }
}
