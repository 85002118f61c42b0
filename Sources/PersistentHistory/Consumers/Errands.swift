/// Work of a store's session that waits, and so runs in tasks: replicas, hooks that are not on the loop.
///
/// The session begins it synchronously, and is called when it is done.
final class Errands: Sendable {
    typealias Errand = @Sendable () async -> Void

    private let stream: AsyncStream<Errand>
    private let beginning: AsyncStream<Errand>.Continuation
    /// Of what may be broken off.
    private let cancellation = OneShotEvent()

    init() { (stream, beginning) = AsyncStream.makeStream() }

    /// - Returns: False if nothing more may be started.
    func run(_ errand: @escaping Errand) -> Bool {
        if case .terminated = beginning.yield(errand) { return false }
        return true
    }

    /// Does something that `cancel` breaks off.
    func breakable<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) async throws -> T {
        try await cancellation.cancelling(body)
    }

    func cancel() { cancellation.signal() }

    /// Nothing more is started.
    func end() { beginning.finish() }

    /// Runs everything until the end, or until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            for await errand in stream { group.addTask { await errand() } }
        }
        // A cancelled task leaves the stream as it is.
        beginning.finish()
    }
}
