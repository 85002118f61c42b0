import Logging
import PersistentHistory

/// Takes what happens to one store into the status, and logs it.
struct PipelineLog: PipelineReporter {
    let store: String
    let logger: Logger
    let status: LiveStatus
    let deliveries: DeliveryLog
    /// Whether it is one of a folder's: that it comes and goes is said of all together.
    var isOfFolder = false
    /// Called when a hook is held: a single run (`--once`) then gives up.
    var onHold: @Sendable () -> Void = {}

    func report(_ event: PipelineEvent) {
        // What each commit begins with: it changes nothing of the status.
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

    /// What is repeated is for those who look for it, and no reason for an alert.
    private func log(_ event: PipelineEvent, isRepeated: Bool = false) {
        guard logger.logLevel <= .debug || !(event.isRoutine || isRepeated) else { return }
        if isOfFolder, case .storeLost(let error) = event, error.code == .storeMissing { return }
        for message in event.messages(of: store) {
            if isOfFolder, message.level <= .notice {
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
