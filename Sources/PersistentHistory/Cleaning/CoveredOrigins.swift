import GRDB

/// Whether a rule lets history be cleaned, by the author of a change. It is asked of change after change, and those of one
/// transaction, which lie together, have one answer.
struct CoveredOrigins {
    private let rule: DeliveryRule
    private var last: (origin: DatabaseValue, isCovered: Bool)?

    init(_ rule: DeliveryRule) { self.rule = rule }

    mutating func contain(_ origin: DatabaseValue) -> Bool {
        if let last, last.origin == origin { return last.isCovered }
        let isCovered = rule.cleans(Origin(origin).author)
        last = (origin, isCovered)
        return isCovered
    }
}
