import Logging
import PersistentHistory

/// Applies the events of one store to the status, and logs them.
struct PipelineLog: PipelineReporter {
    let store: String
    let logger: Logger
    let status: LiveStatus
    let deliveries: DeliveryLog
    /// Whether the store belongs to a folder: the folder logs the coming and going of its stores together.
    var isOfFolder = false
    /// Called when a hook is held: a single run (`--once`) then gives up.
    var onHold: @Sendable () -> Void = {}

    func report(_ event: PipelineEvent) {
        // Each commit starts with this event, which does not change the status.
        if case .remoteChange = event { return log(event) }
        let effects = status.apply(event, store: store)
        if effects.isStoreBack {
            logger.report(
                .storeBack, "Store \"\(store)\" can be used again.", metadata: ["store": "\(store)"])
        }
        if effects.isStateBack { log(.stateRecovered) }
        switch event {
        case .stateRecovered: break  // Logged where it is news.
        case .delivered(let consumer, let hook, let deliveries):
            self.deliveries.log(deliveries, of: hook, to: consumer, store: store)
        default: log(event, isRepeated: effects.isRepeated)
        }
        if case .hookHeld = event { onHold() }
    }

    /// A repeated event is logged for debugging only, and gives no reason for an alert.
    private func log(_ event: PipelineEvent, isRepeated: Bool = false) {
        guard logger.logLevel <= .debug || !(event.isRoutine || isRepeated) else { return }
        if isOfFolder, event.isOfGoing { return }
        for message in event.messages(of: store) {
            if isOfFolder, event.isOfComing {
                logger.log(level: .debug, "\(message.text)", metadata: message.fields)
                continue
            }
            if let code = message.code, !isRepeated {
                logger.report(code, "\(message.text)", metadata: message.fields)
            } else {
                logger.log(
                    level: isRepeated ? .debug : message.level, "\(message.text)", metadata: message.fields)
            }
        }
    }
}

extension PipelineEvent {
    /// Whether the store's file has gone, before or after it was opened: the folder's own line says so.
    fileprivate var isOfGoing: Bool {
        switch self {
        case .storeLost(let error): error.code == .storeMissing
        case .watchFailed(let error): error.code == .missing
        default: false
        }
    }

    /// Whether it is logged for each store that opens: too much for a folder with thousands of stores.
    fileprivate var isOfComing: Bool {
        switch self {
        case .storeOpened, .trackingUpdated, .trackingComplete, .consumerStands, .feedBegan, .replicaFilled:
            true
        default: false
        }
    }
}
