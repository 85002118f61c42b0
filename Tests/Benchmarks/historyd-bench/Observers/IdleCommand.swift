import ArgumentParser
import Dispatch

/// A program that only waits, with Swift's concurrency: the daemon's own idle cost is the difference. (The runtime's
/// thread pool wakes up once a second.)
///
/// Only this command is asynchronous: the bare loops must not start the runtime's threads.
struct IdleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait", abstract: "Waits, until it is ended.", shouldDisplay: false)

    func run() {
        // What an asynchronous `main` does: a task, and a main thread that is left to the runtime.
        Task {
            let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
            for await _ in stream {}
            continuation.finish()
        }
        dispatchMain()
    }
}
