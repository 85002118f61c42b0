/// How far history may be deleted, and which consumers hold back the rest: a pure function of how far each
/// has got.
package struct CleaningPlan: Sendable, Equatable {
    /// A consumer or feed that must have processed a transaction before it is deleted.
    package struct Holder: Sendable, Equatable {
        package let consumer: String
        /// For one context of the consumer that has its own position.
        package var context: String?
        /// The last transaction that it is done with; nil if it has had nothing yet.
        package let number: Int64?
        /// How long it has left something undone.
        package let standing: Duration

        /// `Main`, `Main/view`.
        package var name: String { context.map { "\(consumer)/\($0)" } ?? consumer }
    }

    /// Everything up to here may be deleted; nil if a consumer has no position yet.
    package let number: Int64?
    /// Those that hold back the rest, the slowest first.
    package let blockers: [Holder]
    /// Those that have not processed everything that may be deleted: their tokens expire.
    package let passedBy: [Holder]
    /// What is younger than the store keeps history, and would go otherwise; nil if there is none.
    package private(set) var young: YoungHistory?
    /// The history that it was made for; nil for whatever is found.
    var history: PlannedHistory?

    /// - Parameters:
    ///   - newest: The store's newest change.
    ///   - maximumDuration: How long a consumer that does not move blocks the cleanup.
    ///   - force: Whether to wait for no consumer.
    ///   - findYoung: Finds what is too young up to a position. It is kept even with `force`.
    init<E: Error>(
        _ holders: [Holder], newest: Int64, maximumDuration: Duration?, force: Bool = false,
        findYoung: (_ limit: Int64) throws(E) -> YoungHistory?
    ) throws(E) {
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
        let had = min(waiting.compactMap(\.number).min() ?? newest, newest)
        young = try findYoung(had)
        let limit = min(had, young.map { $0.first - 1 } ?? had)
        number = limit
        passedBy = holders.filter { $0.number ?? -1 < limit }.sorted(by: order)
    }

    /// The plan for a store that keeps nothing for its age.
    package init(_ holders: [Holder], newest: Int64, maximumDuration: Duration?, force: Bool = false) {
        self.init(holders, newest: newest, maximumDuration: maximumDuration, force: force) { _ in nil }
    }
}
