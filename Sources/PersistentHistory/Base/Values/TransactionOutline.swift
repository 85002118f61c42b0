/// What a large transaction consists of, without its changes, which are read when they are needed, part by part.
///
/// On the way to hooks, replicas and feeds a large transaction is alone in its batch and has an outline instead of
/// changes: the memory that it takes does not depend on how much one program writes at once.
struct TransactionOutline: Sendable, Hashable {
    /// A transaction with more changes is large; a part of it has so many at most.
    static let partSize = 10_000
    /// Parts that come with values are smaller, so that what they hold fits into memory: a part has so many of them.
    static let piecesOfPart = 40

    /// A part has no more bytes of values than this, and a transaction with more is large: tombstones may be of any size.
    static let partBytes = 4 << 20
    private static let pieceBytes = 1 << 20

    /// How many objects a call or a line has at most that comes with values.
    static func pieceSize(of partSize: Int) -> Int {
        partSize % piecesOfPart == 0 ? partSize / piecesOfPart : partSize
    }

    /// Some of the changes, in pieces.
    struct Extent: Sendable, Hashable {
        struct Piece: Sendable, Hashable {
            /// The number of the first change.
            let start: Int64
            fileprivate(set) var size = ReadSize()
        }

        private(set) var count = 0
        private(set) var pieces: [Piece] = []

        mutating func add(_ number: Int64, bytes: Int, pieceSize: Int) {
            let isFull = pieces.last.map { last in
                last.size.count == pieceSize || last.size.bytes + bytes > TransactionOutline.pieceBytes
            }
            if isFull ?? true { pieces.append(Piece(start: number)) }
            pieces[pieces.count - 1].size.add(1, bytes: bytes)
            count += 1
        }

        /// Pieces put together, as far as a part may be large.
        func parts(of size: Int) -> [Piece] {
            var parts: [Piece] = []
            for piece in pieces {
                if let last = parts.last?.size, last.count + piece.size.count <= size,
                    last.bytes + piece.size.bytes <= TransactionOutline.partBytes
                {
                    parts[parts.count - 1].size.add(piece.size.count, bytes: piece.size.bytes)
                } else {
                    parts.append(piece)
                }
            }
            return parts
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
    mutating func add(_ number: Int64, _ entity: Entity, _ operation: ChangeOperation, bytes: Int = 0) {
        whole.add(number, bytes: bytes, pieceSize: pieceSize)
        last = number
        if !groups.indices.contains(lastGroup) || !groups[lastGroup].has(entity, operation) {
            lastGroup = groups.firstIndex { $0.has(entity, operation) } ?? groups.endIndex
            if lastGroup == groups.endIndex { groups.append(Group(entity: entity, operation: operation)) }
        }
        groups[lastGroup].extent.add(number, bytes: bytes, pieceSize: pieceSize)
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
        let parts = extent.parts(of: size)
        let last = parts.count - 1
        return parts.enumerated().map { index, part in
            let end = index == last ? outline.last : parts[index + 1].start - 1
            return UnreadChanges(
                transaction: transaction, group: group, range: part.start...max(part.start, end),
                count: part.size.count,
                part: last == 0 ? nil : CallPart(index: index, isLast: index == last), values: values)
        }
    }

    /// Everything at once.
    static func whole(_ transaction: HistoryTransaction, values: WantedValues? = nil) -> UnreadChanges? {
        guard let outline = transaction.outline, let start = outline.whole.pieces.first?.start else {
            return nil
        }
        return UnreadChanges(
            transaction: transaction, group: nil, range: start...max(start, outline.last),
            count: outline.whole.count, part: nil, values: values)
    }
}

/// How much was read: changes, and the bytes of the values that they bring.
struct ReadSize: Sendable, Hashable {
    private(set) var count = 0
    private(set) var bytes = 0

    mutating func add(_ count: Int, bytes: Int) {
        self.count += count
        self.bytes += bytes
    }

    /// Whether these changes of one transaction are to be read in parts.
    func isLarge(partSize: Int) -> Bool {
        count > partSize || (count > 1 && bytes > TransactionOutline.partBytes)
    }
}

extension HistoryTransaction {
    /// Whether it is so large that it has no changes here: `HistoryReading.forEachPart(of:filter:)` reads them.
    package var isLarge: Bool { outline != nil }

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
