/// The state of a tracker: its position, the last loss of history, and its problems.
public struct TrackerState: Sendable {
    /// The last transaction that its hooks and contexts have processed; nil until the store was opened.
    public internal(set) var position: HistoryToken?
    /// The last loss of history since the tracker was created. The program must rebuild from the store what it derived
    /// from the changes until `lostHistory.lost`.
    public internal(set) var lostHistory: Expiry?
    /// Why the store cannot be used now. It is retried, unless `run()` has thrown this error.
    public internal(set) var storeError: HistoryError?
    /// Why a hook's last call failed; nil once that hook has succeeded.
    public internal(set) var hookFailure: HookFailure?
    private var failingHook: String?
    /// Why contexts cannot be updated now, by name. They are retried.
    public internal(set) var contextErrors: [String: HistoryError] = [:]

    /// Processes an event.
    mutating func apply(_ event: PipelineEvent) {
        switch event {
        case .storeOpened: (storeError, contextErrors) = (nil, [:])
        case .storeLost(let error), .stateFailed(let error), .consumerFailed(_, let error, _):
            storeError = error
        case .stateRecovered, .consumerRecovered: storeError = nil
        case .consumerStands(_, let token): position = token
        case .cursorMoved(_, let token), .cursorsMoved(_, let token):
            (position, storeError) = (token, nil)
        case .historyLost(_, let expiry): lostHistory = expiry
        case .hookFailed(_, let hook, let failure, _, _, _), .hookHeld(_, let hook, let failure, _, _, _),
            .deadLetterKept(_, let hook, let failure, _, _):
            (failingHook, hookFailure) = (hook, failure)
        case .hookRecovered(_, let hook, _, _), .delivered(_, let hook, _):
            if hook == failingHook { (failingHook, hookFailure) = (nil, nil) }
        case .contextFailed(_, let context, let error, _): contextErrors[context] = error
        case .contextRecovered(_, let context, _): contextErrors[context] = nil
        default: break
        }
    }
}

/// Keeps a tracker's state, and passes events on.
final class TrackerReporter: PipelineReporter {
    private let current = Locked(TrackerState())
    private let next: any PipelineReporter

    init(_ next: any PipelineReporter) { self.next = next }

    var state: TrackerState { current.withLock { $0 } }

    func report(_ event: PipelineEvent) {
        current.withLock { $0.apply(event) }
        next.report(event)
    }
}
