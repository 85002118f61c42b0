/// A store's signals, for the current session: sessions come and go, and signals in between are kept.
@LoopActor final class SignalInbox {
    private var pending: StoreSignal = []
    private(set) var isOver = false
    /// Why there will be no more signals, unless the observer was stopped.
    private(set) var failure: ObserverError?
    /// Called when there is a signal to take.
    var receiver: (() -> Void)?
    private let arrived = WakeUpSignal()
    /// Without signals there is nothing to wait for.
    private let stop: OneShotEvent

    init(_ stop: OneShotEvent) { self.stop = stop }

    func post(_ signal: StoreSignal) {
        pending.formUnion(signal)
        if let receiver { receiver() } else { arrived.notify() }
    }

    func end(_ failure: ObserverError?) {
        isOver = true
        self.failure = failure
        arrived.end()
        stop.signal()
    }

    /// Takes over what is polled for, until that ends.
    func run(_ signals: StoreSignals) async {
        do throws(ObserverError) {
            var iterator = signals.makeAsyncIterator()
            while let signal = try await iterator.next(isolation: LoopActor.shared) { post(signal) }
            end(nil)
        } catch {
            end(error)
        }
    }

    func take() -> StoreSignal {
        defer { pending = [] }
        return pending
    }

    /// Waits until there is a signal, or there will be none, or the task is cancelled; and takes it.
    func wait() async {
        if pending.isEmpty, !isOver { for await _ in arrived { break } }
        pending = []
    }
}
