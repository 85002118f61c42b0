import PersistentHistory

/// Throttles repeated log lines: of one kind the first passes, and then at most one in a period, which stands
/// for all items since.
///
/// It has no clock of its own: the caller passes the time.
struct Throttle<Kind: Hashable & Sendable, Item: Sendable>: Sendable {
    enum Step {
        case log(Item)
        /// Call `take` at that time.
        case wait(until: ContinuousClock.Instant)
        /// It is pending together with others.
        case nothing
    }

    private struct Entry: Sendable {
        var last: ContinuousClock.Instant
        var waiting: Item?
    }

    let period: Duration
    /// Merges an item into the pending one.
    private let merge: @Sendable (inout Item, Item) -> Void
    private var entries: [Kind: Entry] = [:]

    init(period: Duration, merge: @escaping @Sendable (inout Item, Item) -> Void) {
        self.period = period
        self.merge = merge
    }

    mutating func add(_ item: Item, of kind: Kind, at now: ContinuousClock.Instant) -> Step {
        // One lookup, then a change in place: this runs for each delivery.
        guard let place = entries.index(forKey: kind) else {
            if entries.count % 64 == 63 { forgetQuiet(at: now) }
            entries[kind] = Entry(last: now)
            return .log(item)
        }
        if entries.values[place].waiting != nil {
            // Moved out, so that it is not copied.
            if var waiting = entries.values[place].waiting.take() {
                merge(&waiting, item)
                entries.values[place].waiting = waiting
            }
            return .nothing
        }
        let last = entries.values[place].last
        if now - last < period {
            entries.values[place].waiting = item
            return .wait(until: last + period)
        }
        entries.values[place].last = now
        return .log(item)
    }

    /// Takes the pending item of one kind.
    mutating func take(_ kind: Kind, at now: ContinuousClock.Instant) -> Item? {
        guard let item = entries[kind]?.waiting else { return nil }
        entries[kind] = Entry(last: now)
        return item
    }

    /// Takes the pending items of all kinds, before the daemon ends.
    mutating func takeAll() -> [Item] {
        defer { entries = [:] }
        return entries.values.compactMap(\.waiting)
    }

    /// Clients choose the kinds, so their number is not bounded.
    private mutating func forgetQuiet(at now: ContinuousClock.Instant) {
        entries = entries.filter { $0.value.waiting != nil || now - $0.value.last < period }
    }
}

extension Throttle {
    /// Logs an item now, or merged with others when its time has come.
    static func log(
        _ item: Item, of kind: Kind, in throttle: Locked<Throttle>, _ write: @escaping @Sendable (Item) -> Void
    ) {
        let writeDue: @Sendable () -> Void = {
            if let item = throttle.withLock({ $0.take(kind, at: .now) }) { write(item) }
        }
        switch throttle.withLock({ $0.add(item, of: kind, at: .now) }) {
        case .log(let item): write(item)
        case .wait(let end):
            do {
                _ = try HistoryLoop.shared().schedule(after: ContinuousClock.now.duration(to: end), writeDue)
            } catch {
                // Without a loop nothing is delivered either.
                writeDue()
            }
        case .nothing: break
        }
    }
}
