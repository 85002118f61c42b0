// MARK: - Holding

/// Lets an operator hold the passes of a store's consumers, let them go on, and have what failed
/// tried again at once.
///
/// A hold lets the current batches finish; nothing new is started until all holds are
/// released.
package final class PassControl: Sendable {
    /// The reason of a hold: one does not release what another holds.
    package enum Holder: Sendable, Hashable {
        case operatorOrder, reload
    }

    private struct State {
        var holders: Set<Holder> = []
        var underWay = 0
        /// Requested when no batch runs any more.
        var quiet: OneShotEvent?
        var released = OneShotEvent()
        /// The consumers' owner, while the store is open.
        var owner: Owner?
    }

    struct Owner: Sendable {
        /// The passes are no longer held.
        let released: @Sendable () -> Void
        /// The pauses after failures are over.
        let tryNow: @Sendable () -> Void
    }

    private let state = Locked(State())

    package init() {}

    package func isHeld(by holder: Holder) -> Bool { state.withLock { $0.holders.contains(holder) } }

    /// Whether the passes are held.
    var isHeld: Bool { state.withLock { !$0.holders.isEmpty } }

    /// Begins to hold; `quiet` waits until it is felt.
    package func hold(by holder: Holder) { state.withLock { _ = $0.holders.insert(holder) } }

    package func release(by holder: Holder) {
        let (released, owner) = state.withLock { state -> (OneShotEvent?, Owner?) in
            guard state.holders.remove(holder) != nil, state.holders.isEmpty else { return (nil, nil) }
            defer { state.released = OneShotEvent() }
            return (state.released, state.owner)
        }
        released?.signal()
        owner?.released()
    }

    /// Returns when no batch runs, or the task is cancelled.
    package func quiet() async {
        let signal = state.withLock { state -> OneShotEvent? in
            guard state.underWay > 0 else { return nil }
            let signal = state.quiet ?? OneShotEvent()
            state.quiet = signal
            return signal
        }
        await signal?.wait()
    }

    /// Ends the pauses after failures.
    package func tryNow() { state.withLock { $0.owner }?.tryNow() }

    // MARK: For the held parts

    /// Begins a batch, once the passes are not held; false if a stop is requested before.
    func enter(_ stop: OneShotEvent) async -> Bool {
        while !stop.isSignaled, !Task.isCancelled {
            let released = state.withLock { state -> OneShotEvent? in
                if !state.holders.isEmpty { return state.released }
                state.underWay += 1
                return nil
            }
            guard let released else { return true }
            await stop.cutShort { await released.wait() }
        }
        return false
    }

    func leave() {
        let quiet = state.withLock { state -> OneShotEvent? in
            state.underWay -= 1
            guard state.underWay == 0 else { return nil }
            defer { state.quiet = nil }
            return state.quiet
        }
        quiet?.signal()
    }

    func setOwner(_ owner: Owner?) { state.withLock { $0.owner = owner } }

    /// Begins a batch, unless the passes are held: then the owner is notified when they no longer are.
    func tryEnter() -> Bool {
        state.withLock { state in
            guard state.holders.isEmpty else { return false }
            state.underWay += 1
            return true
        }
    }
}
