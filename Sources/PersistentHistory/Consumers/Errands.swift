/// Work of a store's owner that waits or takes long, and so runs in tasks: replicas, hooks that are not on the loop.
///
/// The owner begins it synchronously, and is called when it is done.
@LoopActor final class Errands {
    typealias Errand = @Sendable () async -> Void

    private let stream: AsyncStream<Errand>
    private let beginning: AsyncStream<Errand>.Continuation
    /// Of what may be broken off.
    private let cancellation = OneShotEvent()

    nonisolated init() { (stream, beginning) = AsyncStream.makeStream() }

    /// Does something elsewhere, and then calls back.
    ///
    /// - Returns: False if nothing more may be started.
    func run<T: Sendable>(
        _ body: @escaping @Sendable () async -> T, then: @escaping @LoopActor @Sendable (T) -> Void
    ) -> Bool {
        let result = beginning.yield { await then(body()) }
        if case .terminated = result { return false }
        return true
    }

    /// Calls an endpoint that is not on the loop; `cancel` breaks that off.
    func call(
        _ endpoint: any HookEndpoint, _ request: HookRequest,
        then: @escaping @LoopActor @Sendable (HookAnswer?) -> Void
    ) -> Bool {
        run(
            { [cancellation] in
                // It throws only if it was broken off before it began.
                try? await cancellation.cancelling { await endpoint.answer(request) }
            }, then: then)
    }

    /// Does something that `cancel` breaks off.
    ///
    /// - Throws: What the body throws; `CancellationError`.
    nonisolated func breakable<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) async throws -> T
    {
        try await cancellation.cancelling(body)
    }

    func cancel() { cancellation.signal() }

    /// Nothing more is started.
    func end() { beginning.finish() }

    /// Runs everything until the end, or until the task is cancelled.
    nonisolated func run() async {
        await withDiscardingTaskGroup { group in
            for await errand in stream { group.addTask { await errand() } }
        }
        // A cancelled task leaves the stream as it is.
        beginning.finish()
    }
}
