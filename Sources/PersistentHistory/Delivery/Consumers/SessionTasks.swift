/// Work of a store's session that waits, and so runs in tasks: replicas, hooks that are not on the loop.
///
/// The session starts it synchronously, and is called when it is done.
final class SessionTasks: Sendable {
    typealias Work = @Sendable () async -> Void

    private let stream: AsyncStream<Work>
    private let beginning: AsyncStream<Work>.Continuation
    /// Interrupts what was started as `cancellable`.
    private let cancellation = OneShotEvent()

    init() { (stream, beginning) = AsyncStream.makeStream() }

    /// - Returns: False if nothing more may be started.
    func run(_ work: @escaping Work) -> Bool {
        if case .terminated = beginning.yield(work) { return false }
        return true
    }

    /// Does work that `cancel` interrupts.
    func cancellable<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) async throws -> T {
        try await cancellation.cancelling(body)
    }

    func cancel() { cancellation.signal() }

    /// Starts nothing more.
    func end() { beginning.finish() }

    /// Runs all work until the end, or until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            for await work in stream { group.addTask { await work() } }
        }
        // A cancelled task does not finish the stream.
        beginning.finish()
    }
}
