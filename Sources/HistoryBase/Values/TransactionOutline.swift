/// What a large transaction consists of, without its changes, which are read part by part when they are
/// needed.
///
/// On the way to hooks, replicas and feeds, a large transaction is alone in its batch and has an outline
/// instead of changes. So its memory does not depend on how much one program writes at once.
@usableFromInline package struct TransactionOutline: Sendable, Hashable {
    /// A transaction with more changes than this is large. A part has at most this many.
    package static let partSize = 10_000
    /// Parts with values are smaller, so that their content fits into memory: this many of them make a
    /// part.
    static let piecesOfPart = 40

    /// The maximum size of the values in a part. A transaction with more is large: tombstones may have
    /// any size.
    @usableFromInline package static let partBytes = 4 << 20
    private static let pieceBytes = 1 << 20

    /// The maximum number of objects in a call or a line with values.
    package static func pieceSize(of partSize: Int) -> Int {
        partSize % piecesOfPart == 0 ? partSize / piecesOfPart : partSize
    }

    /// A range of changes, in pieces.
    package struct Extent: Sendable, Hashable {
        package struct Piece: Sendable, Hashable {
            /// The number of the first change.
            let start: Int64
            fileprivate(set) var size = ReadSize()
        }

        package private(set) var count = 0
        private(set) var pieces: [Piece] = []

        mutating func add(_ number: Int64, bytes: Int, pieceSize: Int) {
            let isFull = pieces.last.map { last in
                last.size.count == pieceSize || last.size.bytes + bytes > TransactionOutline.pieceBytes
            }
            if isFull ?? true { pieces.append(Piece(start: number)) }
            pieces[pieces.count - 1].size.add(1, bytes: bytes)
            count += 1
        }

        /// Merges pieces, as far as a part may be large.
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
    package struct Group: Sendable, Hashable {
        package let entity: Entity
        package let operation: ChangeOperation
        fileprivate(set) var extent = Extent()

        package func has(_ entity: Entity, _ operation: ChangeOperation) -> Bool {
            self.operation == operation
                && (self.entity === entity || self.entity.name.hasSameBytes(as: entity.name))
        }
    }

    let partSize: Int
    let pieceSize: Int
    /// All changes.
    package private(set) var whole = Extent()
    /// In the order of first occurrence.
    package private(set) var groups: [Group] = []
    /// The number of the last change.
    private(set) var last: Int64 = 0
    /// The fingerprint of the transaction's last row: see `HistoryBatch.fingerprint`.
    package var fingerprint: String?
    private var lastGroup = 0

    package init(partSize: Int) {
        self.partSize = partSize
        pieceSize = Self.pieceSize(of: partSize)
    }

    /// Adds the change that comes next.
    package mutating func add(_ number: Int64, _ entity: Entity, _ operation: ChangeOperation, bytes: Int = 0) {
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
package struct UnreadChanges: Sendable {
    /// A transaction with an outline.
    package let transaction: HistoryTransaction
    /// Only changes of this kind; nil for all.
    package let group: TransactionOutline.Group?
    /// The range of their numbers, and how many there are.
    package let range: ClosedRange<Int64>
    package let count: Int
    /// Nil if these are all.
    package let part: CallPart?
    /// The objects whose rows are read, too.
    package var values: WantedValues?

    /// All parts of a group, or of the transaction if it is nil.
    ///
    /// - Parameter values: The objects whose rows are read, too. The parts are then smaller.
    package static func parts(
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
    package static func whole(_ transaction: HistoryTransaction, values: WantedValues? = nil) -> UnreadChanges?
    {
        guard let outline = transaction.outline, let start = outline.whole.pieces.first?.start else {
            return nil
        }
        return UnreadChanges(
            transaction: transaction, group: nil, range: start...max(start, outline.last),
            count: outline.whole.count, part: nil, values: values)
    }
}

/// How much was read: the number of changes, and the bytes of their values.
@usableFromInline package struct ReadSize: Sendable, Hashable {
    @usableFromInline package internal(set) var count = 0
    @usableFromInline package internal(set) var bytes = 0

    @inlinable package init() {}

    @inlinable package mutating func add(_ count: Int, bytes: Int) {
        self.count += count
        self.bytes += bytes
    }

    /// Whether changes of one transaction with this size are read in parts.
    @inlinable package func isLarge(partSize: Int) -> Bool {
        count > partSize || (count > 1 && bytes > TransactionOutline.partBytes)
    }
}

extension HistoryTransaction {
    /// Whether it is so large that its changes are not included: `HistoryReading.forEachPart(of:filter:)`
    /// reads them.
    package var isLarge: Bool { outline != nil }

    /// Whether it has changes of one of these entities.
    package func concerns(_ entities: Set<BinaryText>) -> Bool {
        outline?.groups.contains { entities.contains($0.entity.name) }
            ?? changes.contains { entities.contains($0.entity.name) }
    }
}

/// The position of a part in something that is too large for one call.
package struct CallPart: Sendable, Hashable {
    package let index: Int
    package let isLast: Bool

    package init(index: Int, isLast: Bool) {
        self.index = index
        self.isLast = isLast
    }
}
