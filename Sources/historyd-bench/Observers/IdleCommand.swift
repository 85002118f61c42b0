import ArgumentParser

/// A program that does nothing but wait in the way of Swift's concurrency: what remains of the daemon's
/// cost at rest is its own. (The runtime's thread pool looks after itself once a second.)
struct IdleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Waits, until it is ended.", shouldDisplay: false)

    func run() async throws {
        // It has also had a second task, as every daemon has.
        async let never: Void = wait()
        await never
    }

    @concurrent
    private func wait() async {
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        for await _ in stream {}
        continuation.finish()
    }
}
