internal import CPlatform
internal import Glibc

/// Receives signals to the process, one by one, on the loop.
///
/// Source: signalfd(2).
package final class SignalLine: Sendable {
    private let descriptor: Descriptor

    /// Takes over the signals for the whole process. Call it before any other thread starts, because
    /// signals would still interrupt that. Signals that come before `next` is called are kept.
    package init(_ signals: [Int32]) throws(SystemError) {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        let number = pthread_sigmask(SIG_BLOCK, &set, nil)
        if number != 0 { throw SystemError(call: "pthread_sigmask", number: number) }
        let file = signalfd(-1, &set, Int32(SFD_CLOEXEC | SFD_NONBLOCK))
        if file < 0 { throw SystemError(call: "signalfd", number: errno) }
        descriptor = try Descriptor(adopting: file, for: .reading)
    }

    /// Waits for a signal.
    ///
    /// - Returns: Its number; nil if the task was cancelled.
    package func next() async throws(SystemError) -> Int32? {
        var buffer = [UInt8](repeating: 0, count: MemoryLayout<signalfd_siginfo>.size)
        guard try await descriptor.read(into: &buffer) == buffer.count else { return nil }
        return buffer.withUnsafeBytes { Int32(bitPattern: $0.load(as: UInt32.self)) }
    }
}
