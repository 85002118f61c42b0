/// The values of an object before and after a change, as far as they are certain.
///
/// A reference: few changes have one.
@usableFromInline package final class ChangeValues: Sendable {
    /// Where values come from.
    package enum Source: String, Sendable {
        /// The store as it was just before or after the transaction, according to its write-ahead log.
        case wal
        /// The present row, which no later transaction changed.
        case current
        /// The tombstone.
        case tombstone
    }

    /// The object at one moment.
    package struct State: Sendable {
        package let source: Source
        package let values: [(column: Entity.Column, value: HistoryValue)]
        /// Properties whose values are too large to show.
        package let omitted: [String]

        package init(
            _ source: Source, _ values: [(column: Entity.Column, value: HistoryValue)], omitted: [String] = []
        ) {
            (self.source, self.values, self.omitted) = (source, values, omitted)
        }
    }

    /// Nil if the object did not exist, or its values are not known.
    package let before: State?
    package let after: State?

    package init(before: State?, after: State?) { (self.before, self.after) = (before, after) }
}
