/// Lets an operator hold the passes of a store's consumers, let them go on, and have what failed
/// tried again at once.
///
/// A hold lets the batches under way come to their end; nothing new is begun until all holds are
/// released.
package final class PassControl: Sendable {
    /// Who holds: one does not release what another holds.
    package enum Holder: Sendable, Hashable {
        case operatorOrder, reload
    }

    private struct State {
        var holders: Set<Holder> = []
        var underWay = 0
        /// Requested when nothing is under way any more.
        var quiet: StopSignal?
        var released = StopSignal()
        /// The consumers' owner, while the store is open.
        var owner: Owner?
    }

    /// Who is told on the loop.
    struct Owner: Sendable {
        /// Nobody holds any more.
        let released: @LoopActor @Sendable () -> Void
        /// The pauses after failures are over.
        let tryNow: @LoopActor @Sendable () -> Void
    }

    private let state = Locked(State())

    package init() {}

    package func isHeld(by holder: Holder) -> Bool { state.withLock { $0.holders.contains(holder) } }

    /// Whether anybody holds.
    var isHeld: Bool { state.withLock { !$0.holders.isEmpty } }

    /// Begins to hold; `quiet` waits until it is felt.
    package func hold(by holder: Holder) { state.withLock { _ = $0.holders.insert(holder) } }

    package func release(by holder: Holder) {
        let (released, owner) = state.withLock { state -> (StopSignal?, Owner?) in
            guard state.holders.remove(holder) != nil, state.holders.isEmpty else { return (nil, nil) }
            defer { state.released = StopSignal() }
            return (state.released, state.owner)
        }
        released?.request()
        Self.call(owner?.released)
    }

    private static func call(_ handler: HistoryLoop.Handler?) {
        // The loop is there: the owner is on it.
        if let handler { try? HistoryLoop.shared().soon(handler) }
    }

    /// Returns when no batch is under way, or the task is cancelled.
    package func quiet() async {
        let signal = state.withLock { state -> StopSignal? in
            guard state.underWay > 0 else { return nil }
            let signal = state.quiet ?? StopSignal()
            state.quiet = signal
            return signal
        }
        await signal?.wait()
    }

    /// Ends the pauses after failures.
    package func tryNow() { Self.call(state.withLock { $0.owner }?.tryNow) }

    // MARK: For those who are held

    /// Begins a batch, once nobody holds; false where a stop is requested before.
    func enter(_ stop: StopSignal) async -> Bool {
        while !stop.isRequested, !Task.isCancelled {
            let released = state.withLock { state -> StopSignal? in
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
        let quiet = state.withLock { state -> StopSignal? in
            state.underWay -= 1
            guard state.underWay == 0 else { return nil }
            defer { state.quiet = nil }
            return state.quiet
        }
        quiet?.request()
    }

    func setOwner(_ owner: Owner?) { state.withLock { $0.owner = owner } }

    /// Begins a batch, unless somebody holds: then the owner is told when nobody does any more.
    func tryEnter() -> Bool {
        state.withLock { state in
            guard state.holders.isEmpty else { return false }
            state.underWay += 1
            return true
        }
    }
}
