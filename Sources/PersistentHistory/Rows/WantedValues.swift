/// Of which objects the values are wanted.
struct WantedValues: Sendable, Equatable {
    /// Nil is every entity.
    var entities: Set<BinaryText>?
    /// Longer texts and blobs are cut.
    var maximumBytes: Int

    func includes(_ entity: String) -> Bool { entities?.contains(entity) ?? true }

    /// What both want.
    func union(_ other: WantedValues) -> WantedValues {
        WantedValues(
            entities: entities.flatMap { mine in other.entities.map(mine.union) },
            maximumBytes: max(maximumBytes, other.maximumBytes))
    }

    static func union(_ all: some Sequence<WantedValues>) -> WantedValues? {
        all.reduce(nil) { sum, next in sum?.union(next) ?? next }
    }

    /// Whether who wants the other has enough with this.
    func covers(_ other: WantedValues) -> Bool { union(other) == self }
}

extension FeedContext {
    var wantedValues: WantedValues? {
        maximumValueBytes.map { WantedValues(entities: entities, maximumBytes: $0) }
    }
}

extension HistoryBatch {
    /// Whether it has the values that are wanted. Those of a large transaction are read with its changes.
    func covers(_ wanted: WantedValues?) -> Bool {
        guard let wanted else { return true }
        return values?.wanted.covers(wanted) ?? transactions.allSatisfy(\.changes.isEmpty)
    }
}
