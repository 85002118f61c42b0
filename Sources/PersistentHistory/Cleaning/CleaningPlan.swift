/// How far history may be deleted, and which consumers hold back the rest: a pure function of how far each
/// has got.
package struct CleaningPlan: Sendable, Equatable {
    /// A consumer or feed that must have processed a transaction before it is deleted.
    package struct Holder: Sendable, Equatable {
        package let consumer: String
        /// For one context of the consumer that has its own position.
        package let context: String?
        /// The last transaction that it is done with; nil if it has had nothing yet.
        package let number: Int64?
        /// How long it has left something undone.
        package let standing: Duration

        package init(consumer: String, context: String? = nil, number: Int64?, standing: Duration) {
            self.consumer = consumer
            self.context = context
            self.number = number
            self.standing = standing
        }

        /// `Main`, `Main/view`.
        package var name: String { context.map { "\(consumer)/\($0)" } ?? consumer }
    }

    /// Everything up to here may be deleted; nil if a consumer has no position yet.
    package let number: Int64?
    /// Those that hold back the rest, the slowest first.
    package let blockers: [Holder]
    /// Those that have not processed everything that may be deleted: their tokens expire.
    package let passedBy: [Holder]
    /// The history that it was made for; nil for whatever is found.
    var history: PlannedHistory?

    /// - Parameters:
    ///   - newest: The store's newest change.
    ///   - maximumDuration: How long a consumer that does not move blocks the cleanup.
    ///   - force: Whether to wait for no consumer.
    package init(_ holders: [Holder], newest: Int64, maximumDuration: Duration?, force: Bool = false) {
        let order = { (a: Holder, b: Holder) in (a.number ?? -1, a.name) < (b.number ?? -1, b.name) }
        let waiting = holders.filter { holder in
            guard !force else { return false }
            guard let maximumDuration, let number = holder.number, number < newest else { return true }
            return holder.standing <= maximumDuration
        }
        blockers = waiting.filter { $0.number ?? -1 < newest }.sorted(by: order)
        guard !waiting.contains(where: { $0.number == nil }) else {
            number = nil
            passedBy = []
            return
        }
        let limit = min(waiting.compactMap(\.number).min() ?? newest, newest)
        number = limit
        passedBy = holders.filter { $0.number ?? -1 < limit }.sorted(by: order)
    }
}
