/// What a large transaction consists of, without its changes, which are read when they are needed, part by part.
///
/// On the way to hooks, replicas and feeds a large transaction is alone in its batch and has an outline instead of
/// changes: the memory that it takes does not depend on how much one program writes at once.
struct TransactionOutline: Sendable, Hashable {
    /// A transaction with more changes is large; a part of it has so many at most.
    static let partSize = 10_000
    /// Parts that come with values are smaller, so that what they hold fits into memory: a part has so many of them.
    static let piecesOfPart = 40

    /// How many objects a call or a line has at most that comes with values.
    static func pieceSize(of partSize: Int) -> Int {
        partSize % piecesOfPart == 0 ? partSize / piecesOfPart : partSize
    }

    /// Some of the changes, in pieces.
    struct Extent: Sendable, Hashable {
        private(set) var count = 0
        /// The number of the first change of each piece.
        private(set) var starts: [Int64] = []

        mutating func add(_ number: Int64, pieceSize: Int) {
            if count % pieceSize == 0 { starts.append(number) }
            count += 1
        }
    }

    /// The changes of one entity and operation.
    struct Group: Sendable, Hashable {
        let entity: Entity
        let operation: ChangeOperation
        fileprivate(set) var extent = Extent()

        func has(_ entity: Entity, _ operation: ChangeOperation) -> Bool {
            self.operation == operation
                && (self.entity === entity || self.entity.name.hasSameBytes(as: entity.name))
        }
    }

    let partSize: Int
    let pieceSize: Int
    /// All changes.
    private(set) var whole = Extent()
    /// In the order in which they first occur.
    private(set) var groups: [Group] = []
    /// The number of the last change.
    private(set) var last: Int64 = 0
    /// Of the transaction's last row: see `HistoryBatch.fingerprint`.
    var fingerprint: String?
    private var lastGroup = 0

    init(partSize: Int) {
        self.partSize = partSize
        pieceSize = Self.pieceSize(of: partSize)
    }

    /// Adds the change that comes next.
    mutating func add(_ number: Int64, _ entity: Entity, _ operation: ChangeOperation) {
        whole.add(number, pieceSize: pieceSize)
        last = number
        if !groups.indices.contains(lastGroup) || !groups[lastGroup].has(entity, operation) {
            lastGroup = groups.firstIndex { $0.has(entity, operation) } ?? groups.endIndex
            if lastGroup == groups.endIndex { groups.append(Group(entity: entity, operation: operation)) }
        }
        groups[lastGroup].extent.add(number, pieceSize: pieceSize)
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
    /// Of which objects the rows are read, too.
    var values: WantedValues?

    /// All parts of a group; of the transaction if it is nil.
    ///
    /// - Parameter values: Of which objects the rows are read, too: then the parts are smaller.
    static func parts(
        of transaction: HistoryTransaction, in group: TransactionOutline.Group? = nil,
        values: WantedValues? = nil
    ) -> [UnreadChanges] {
        guard let outline = transaction.outline else { return [] }
        let extent = group?.extent ?? outline.whole
        let size = values?.includesRows ?? false ? outline.pieceSize : outline.partSize
        let starts = stride(from: 0, to: extent.starts.count, by: size / outline.pieceSize).map {
            extent.starts[$0]
        }
        let last = starts.count - 1
        return starts.enumerated().map { index, start in
            let end = index == last ? outline.last : starts[index + 1] - 1
            return UnreadChanges(
                transaction: transaction, group: group, range: start...max(start, end),
                count: min(size, extent.count - index * size),
                part: last == 0 ? nil : CallPart(index: index, isLast: index == last), values: values)
        }
    }

    /// Everything at once.
    static func whole(_ transaction: HistoryTransaction, values: WantedValues? = nil) -> UnreadChanges? {
        guard let outline = transaction.outline, let start = outline.whole.starts.first else { return nil }
        return UnreadChanges(
            transaction: transaction, group: nil, range: start...max(start, outline.last),
            count: outline.whole.count, part: nil, values: values)
    }
}

extension HistoryTransaction {
    /// Whether it has changes of one of some entities.
    func concerns(_ entities: Set<BinaryText>) -> Bool {
        outline?.groups.contains { entities.contains($0.entity.name) }
            ?? changes.contains { entities.contains($0.entity.name) }
    }
}

/// Which part it is of something that is too large for one call.
package struct CallPart: Sendable, Hashable {
    package let index: Int
    package let isLast: Bool
}
