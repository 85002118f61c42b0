import HistoryControl
import Logging
import PersistentHistory

/// Deliveries for the log: at most one line a second for each hook, which sums up what came since the one before.
///
/// A value without a clock of its own: the caller says what time it is.
struct DeliverySums: Sendable {
    /// Deliveries of one hook that one line stands for.
    struct Sum: Sendable, Equatable {
        let hook: String
        /// Nil where there were several.
        var store: String?
        var consumers: Set<String>
        var calls: Int
        var transactions: Int
        /// Of the last call.
        var token: HistoryToken
        /// Nil where there were several, or the transaction has none.
        var author: String?
        var entity: String?

        fileprivate mutating func add(_ other: Sum) {
            if store != other.store { store = nil }
            consumers.formUnion(other.consumers)
            calls += other.calls
            transactions += other.transactions
            token = other.token
            if author != other.author { author = nil }
            if entity != other.entity { entity = nil }
        }
    }

    static let period: Duration = .seconds(1)

    private struct Hook: Sendable {
        var lastLine: ContinuousClock.Instant
        var sum: Sum?
    }

    private var hooks: [String: Hook] = [:]

    /// What is to be done about a delivery.
    enum Step: Equatable {
        case log(Sum)
        /// Call `take` at that time.
        case wait(until: ContinuousClock.Instant)
        /// It waits with others.
        case nothing
    }

    mutating func add(_ sum: Sum, at now: ContinuousClock.Instant) -> Step {
        // Found once, and changed where it is: this is done for each delivery.
        guard let place = hooks.index(forKey: sum.hook) else {
            hooks[sum.hook] = Hook(lastLine: now)
            return .log(sum)
        }
        let lastLine = hooks.values[place].lastLine
        if hooks.values[place].sum?.add(sum) != nil { return .nothing }
        if now - lastLine < Self.period {
            hooks.values[place].sum = sum
            return .wait(until: lastLine + Self.period)
        }
        hooks.values[place].lastLine = now
        return .log(sum)
    }

    /// What has gathered for one hook.
    mutating func take(_ hook: String, at now: ContinuousClock.Instant) -> Sum? {
        guard let sum = hooks[hook]?.sum else { return nil }
        hooks[hook] = Hook(lastLine: now)
        return sum
    }

    /// What has gathered for all hooks: at the end.
    mutating func takeAll() -> [Sum] {
        let sums = hooks.values.compactMap(\.sum).sorted { $0.hook < $1.hook }
        hooks = [:]
        return sums
    }

    /// Forgets hooks that are no longer in force, unless a line of theirs is due.
    mutating func keepOnly(_ names: Set<String>) {
        hooks = hooks.filter { names.contains($0.key) || $0.value.sum != nil }
    }
}

extension DeliverySums.Sum {
    init(_ deliveries: Deliveries, of hook: String, to consumer: String, store: String) {
        self.init(
            hook: hook, store: store, consumers: [consumer], calls: deliveries.calls,
            transactions: deliveries.transactions, token: deliveries.token, author: deliveries.author,
            entity: deliveries.entity)
    }
}

/// Logs deliveries, those of all stores together. At level `debug` each one has a line of its own.
final class DeliveryLog: Sendable {
    private let sums = Locked(DeliverySums())
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    func log(_ deliveries: Deliveries, of hook: String, to consumer: String, store: String) {
        let sum = DeliverySums.Sum(deliveries, of: hook, to: consumer, store: store)
        if logger.logLevel <= .debug { return write(sum, at: .debug) }
        guard logger.logLevel <= .info else { return }
        switch sums.withLock({ $0.add(sum, at: .now) }) {
        case .log(let sum): write(sum, at: .info)
        case .wait(let end): wait(until: end, hook)
        case .nothing: break
        }
    }

    /// Writes what has not been written: at the end.
    func flush() { for sum in sums.withLock({ $0.takeAll() }) { write(sum, at: .info) } }

    func keepOnly(_ hooks: Set<String>) { sums.withLock { $0.keepOnly(hooks) } }

    private func wait(until end: ContinuousClock.Instant, _ hook: String) {
        do {
            _ = try HistoryLoop.shared().schedule(after: ContinuousClock.now.duration(to: end)) {
                self.writeDue(hook)
            }
        } catch {
            // Without a loop nothing is delivered either.
            writeDue(hook)
        }
    }

    private func writeDue(_ hook: String) {
        if let sum = sums.withLock({ $0.take(hook, at: .now) }) { write(sum, at: .info) }
    }

    private func write(_ sum: DeliverySums.Sum, at level: Logger.Level) {
        var fields: Logger.Metadata = ["hook": "\(sum.hook)", "token": "\(sum.token)"]
        fields["store"] = sum.store.map { "\($0)" }
        if sum.consumers.count == 1 { fields["consumer"] = sum.consumers.first.map { "\($0)" } }
        fields["author"] = sum.author.map { "\($0)" }
        fields["entity"] = sum.entity.map { "\($0)" }
        let receiver =
            sum.consumers.count == 1
            ? "\"\(sum.consumers.first ?? "")\"" : "\(sum.consumers.count, "consumer")"
        logger.log(
            level: level,
            "Delivered \(sum.transactions, "transaction") to \"\(sum.hook)\" for \(receiver) in \(sum.calls, "call").",
            metadata: fields)
    }
}
