/// Runs what serves a store in order, on a thread that may wait: no other store waits with it.
actor StoreThread {
    nonisolated let executor = SerialThreadExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
}

/// A handler of a store's session that is called when its time is up, unless it is cancelled before.
final class StoreTimer: Sendable {
    /// Nil once it is cancelled.
    private let state = Locked<(timer: LoopTimer?, isCancelled: Bool)>((nil, false))

    /// The loop's timer may be due already: the store's thread then finds that it was cancelled.
    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    func begin(_ timer: LoopTimer) { state.withLock { $0.timer = timer } }

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            return state.timer
        }?.cancel()
    }
}

/// Lets a few stores be opened at the same time, because that takes memory and processor time: a daemon may have
/// thousands.
///
/// An opening that takes long waits for something, and no longer counts.
final class OpeningTurns: Sendable {
    static let shared = OpeningTurns()

    /// What counts of an opening.
    private static let share: Duration = .milliseconds(200)

    private let turns = AsyncLock(free: 4)

    func taking<T>(on thread: isolated StoreThread, _ body: () throws -> T) async throws -> T {
        let loop = try HistoryLoop.shared()
        await turns.lock()
        let turn = Locked<AsyncLock?>(turns)
        let giveBack: @Sendable () -> Void = { turn.withLock { $0.take() }?.unlock() }
        let timer = loop.schedule(after: Self.share) { giveBack() }
        defer {
            timer.cancel()
            giveBack()
        }
        return try body()
    }
}

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
