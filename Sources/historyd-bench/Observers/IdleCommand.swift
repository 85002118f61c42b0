import ArgumentParser
import Dispatch

/// A program that does nothing but wait in the way of Swift's concurrency: what remains of the daemon's
/// cost at rest is its own. (The runtime's thread pool looks after itself once a second.)
///
/// It becomes asynchronous only here: the bare loops are to have none of that.
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
