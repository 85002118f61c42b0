/// What a large transaction consists of, without its changes, which are read when they are needed, part by part.
///
/// On the way to hooks, replicas and feeds a large transaction is alone in its batch and has an outline instead of
/// changes: the memory that it takes does not depend on how much one program writes at once.
struct TransactionOutline: Sendable, Hashable {
    /// A transaction with more changes is large; a part of it has so many at most.
    static let partSize = 10_000

    /// Some of the changes, in parts.
    struct Extent: Sendable, Hashable {
        private(set) var count = 0
        /// The number of the first change of each part.
        private(set) var starts: [Int64] = []

        mutating func add(_ number: Int64, partSize: Int) {
            if count % partSize == 0 { starts.append(number) }
            count += 1
        }
    }

    /// The changes of one entity and operation.
    struct Group: Sendable, Hashable {
        let entity: Entity
        let operation: ChangeOperation
        fileprivate(set) var extent = Extent()

        func has(_ entity: Entity, _ operation: ChangeOperation) -> Bool {
            self.operation == operation && (self.entity === entity || self.entity.name == entity.name)
        }
    }

    let partSize: Int
    /// All changes.
    private(set) var whole = Extent()
    /// In the order in which they first occur.
    private(set) var groups: [Group] = []
    /// Of the transaction's last row: see `HistoryBatch.fingerprint`.
    var fingerprint: String?
    private var lastGroup = 0

    init(partSize: Int) { self.partSize = partSize }

    /// Adds the change that comes next.
    mutating func add(_ number: Int64, _ entity: Entity, _ operation: ChangeOperation) {
        whole.add(number, partSize: partSize)
        if !groups.indices.contains(lastGroup) || !groups[lastGroup].has(entity, operation) {
            lastGroup = groups.firstIndex { $0.has(entity, operation) } ?? groups.endIndex
            if lastGroup == groups.endIndex { groups.append(Group(entity: entity, operation: operation)) }
        }
        groups[lastGroup].extent.add(number, partSize: partSize)
    }
}

/// Changes of a large transaction that have yet to be read.
struct UnreadChanges: Sendable {
    /// One with an outline.
    let transaction: HistoryTransaction
    /// Only changes of this kind; nil for all.
    let group: TransactionOutline.Group?
    /// The numbers between which they are, and how many there are.
    let range: ClosedRange<Int64>
    let count: Int
    /// Nil where these are all.
    let part: CallPart?

    /// All parts of a group; of the transaction if it is nil.
    static func parts(of transaction: HistoryTransaction, in group: TransactionOutline.Group? = nil)
        -> [UnreadChanges]
    {
        guard let outline = transaction.outline else { return [] }
        let extent = group?.extent ?? outline.whole
        let last = extent.starts.count - 1
        return extent.starts.enumerated().map { index, start in
            let end = index == last ? transaction.number : extent.starts[index + 1] - 1
            return UnreadChanges(
                transaction: transaction, group: group, range: start...max(start, end),
                count: min(outline.partSize, extent.count - index * outline.partSize),
                part: last == 0 ? nil : CallPart(index: index, isLast: index == last))
        }
    }

    /// Everything at once.
    static func whole(_ transaction: HistoryTransaction) -> UnreadChanges? {
        guard let outline = transaction.outline, let start = outline.whole.starts.first else { return nil }
        return UnreadChanges(
            transaction: transaction, group: nil, range: start...max(start, transaction.number),
            count: outline.whole.count, part: nil)
    }
}

extension HistoryTransaction {
    /// Whether it has changes of one of some entities.
    func concerns(_ entities: Set<String>) -> Bool {
        outline?.groups.contains { entities.contains($0.entity.name) }
            ?? changes.contains { entities.contains($0.entity.name) }
    }
}
