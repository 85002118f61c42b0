import HistoryControl
import Logging
import PersistentHistory

/// Deliveries of one hook that are logged as one line.
struct DeliverySum: Sendable, Equatable {
    let hook: String
    /// Nil where they are of several stores.
    var store: String?
    var consumers: Set<String>
    var deliveries: Deliveries

    mutating func add(_ other: DeliverySum) {
        if store != other.store { store = nil }
        consumers.formUnion(other.consumers)
        deliveries.add(other.deliveries)
    }
}

/// Logs deliveries, of all stores together. At level `debug` each delivery has its own line.
final class DeliveryLog: Sendable {
    /// Each hook gets at most one line a second.
    private let sums = Locked(Throttle<String, DeliverySum>(period: .seconds(1)) { $0.add($1) })
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    func log(_ deliveries: Deliveries, of hook: String, to consumer: String, store: String) {
        let sum = DeliverySum(hook: hook, store: store, consumers: [consumer], deliveries: deliveries)
        if logger.logLevel <= .debug { return write(sum, at: .debug) }
        guard logger.logLevel <= .info else { return }
        Throttle.log(sum, of: hook, in: sums) { self.write($0, at: .info) }
    }

    /// Writes what is still pending, before the daemon ends.
    func flush() {
        for sum in sums.withLock({ $0.takeAll() }).sorted(by: { $0.hook < $1.hook }) { write(sum, at: .info) }
    }

    private func write(_ sum: DeliverySum, at level: Logger.Level) {
        var fields: Logger.Metadata = ["hook": "\(sum.hook)", "token": "\(sum.deliveries.token)"]
        fields["store"] = sum.store.map { "\($0)" }
        if sum.consumers.count == 1 { fields["consumer"] = sum.consumers.first.map { "\($0)" } }
        fields["author"] = sum.deliveries.author.map { "\($0)" }
        fields["entity"] = sum.deliveries.entity.map { "\($0)" }
        let receiver =
            sum.consumers.count == 1
            ? "\"\(sum.consumers.first ?? "")\"" : "\(sum.consumers.count, "consumer")"
        logger.log(
            level: level, "\(sum.deliveries.sentence(of: sum.hook, to: receiver))", metadata: fields)
    }
}
