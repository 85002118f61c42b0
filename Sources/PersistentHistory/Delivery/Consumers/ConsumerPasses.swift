// MARK: - Holding

/// Lets an operator hold the passes of all or some of a store's consumers, release them, and retry what
/// failed at once.
///
/// A hold lets the current batches finish. Nothing new starts until all holds are released.
package final class PassControl: Sendable {
    /// The reason of a hold. Each holder releases only its own hold.
    package enum Holder: Sendable, Hashable {
        case operatorOrder, reload
        /// An operator holds one consumer alone.
        case consumer(BinaryText)

        fileprivate func holds(_ consumer: String?) -> Bool {
            switch self {
            case .operatorOrder, .reload: true
            case .consumer(let held): consumer.map { held.text.hasSameBytes(as: $0) } ?? false
            }
        }
    }

    private struct State {
        var holders: Set<Holder> = []
        /// The number of running batches, by consumer.
        var underWay: [String: Int] = [:]
        /// Signaled when no batch runs any more, or none of a consumer.
        var quiet: [(consumer: String?, signal: OneShotEvent)] = []
        var released = OneShotEvent()
        /// The owner of the consumers, while the store is open.
        var owner: Owner?

        func isHeld(_ consumer: String?) -> Bool { holders.contains { $0.holds(consumer) } }

        func isQuiet(_ consumer: String?) -> Bool {
            consumer.map { underWay[$0] == nil } ?? underWay.isEmpty
        }
    }

    struct Owner: Sendable {
        /// Some passes are no longer held.
        let released: @Sendable () -> Void
        /// Ends the pauses after failures.
        let tryNow: @Sendable () -> Void
        /// A consumer is held. It does not stay idle, because idle consumers are moved past commits.
        var held: @Sendable (_ consumer: String) -> Void = { _ in }
    }

    private let state = Locked(State())

    package init() {}

    package func isHeld(by holder: Holder) -> Bool { state.withLock { $0.holders.contains(holder) } }

    /// Whether the passes of all consumers are held.
    var isHeld: Bool { state.withLock { $0.isHeld(nil) } }

    /// Starts a hold; `quiet` waits until it takes effect.
    package func hold(by holder: Holder) {
        let owner = state.withLock { state in
            state.holders.insert(holder)
            return state.owner
        }
        if case .consumer(let consumer) = holder { owner?.held(consumer.text) }
    }

    package func release(by holder: Holder) {
        let (released, owner) = state.withLock { state -> (OneShotEvent?, Owner?) in
            guard state.holders.remove(holder) != nil, !state.isHeld(nil) else { return (nil, nil) }
            defer { state.released = OneShotEvent() }
            return (state.released, state.owner)
        }
        released?.signal()
        owner?.released()
    }

    /// Returns when no batch runs, or none of a consumer, or the task is cancelled.
    package func quiet(_ consumer: String? = nil) async {
        let signal = state.withLock { state -> OneShotEvent? in
            if state.isQuiet(consumer) { return nil }
            let signal = OneShotEvent()
            state.quiet.append((consumer, signal))
            return signal
        }
        await signal?.wait()
    }

    /// Ends the pauses after failures.
    package func tryNow() { state.withLock { $0.owner }?.tryNow() }

    // MARK: For the held consumers

    /// Begins a batch once the passes are not held. Returns false if a stop is requested first.
    ///
    /// - Parameter consumer: The batch's consumer.
    func enter(_ stop: OneShotEvent, _ consumer: String = "") async -> Bool {
        while !stop.isSignaled, !Task.isCancelled {
            let released = state.withLock { state -> OneShotEvent? in
                if state.isHeld(consumer) { return state.released }
                state.underWay[consumer, default: 0] += 1
                return nil
            }
            guard let released else { return true }
            await stop.cutShort { await released.wait() }
        }
        return false
    }

    func leave(_ consumer: String = "") {
        let signals = state.withLock { state -> [OneShotEvent] in
            let left = (state.underWay[consumer] ?? 0) - 1
            state.underWay[consumer] = left > 0 ? left : nil
            guard left <= 0, !state.quiet.isEmpty else { return [] }
            let waiting = state.quiet
            state.quiet = waiting.filter { !state.isQuiet($0.consumer) }
            return waiting.filter { state.isQuiet($0.consumer) }.map(\.signal)
        }
        for signal in signals { signal.signal() }
    }

    func setOwner(_ owner: Owner?) { state.withLock { $0.owner = owner } }

    /// Begins a batch unless the passes are held. If they are, the owner is notified when they are
    /// released.
    func tryEnter(_ consumer: String = "") -> Bool {
        state.withLock { state in
            if state.isHeld(consumer) { return false }
            state.underWay[consumer, default: 0] += 1
            return true
        }
    }
}
