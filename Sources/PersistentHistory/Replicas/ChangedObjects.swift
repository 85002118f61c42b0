/// The changed objects, each once, by entity: what a merge has to read, whatever was done to them.
///
/// Most keys are integers, and usually whole runs of them change together. SQLite reads, writes and
/// deletes a run at once.
struct ChangedObjects: Equatable {
    struct Keys: Equatable {
        /// Objects identified by one integer: in ascending order, with a gap between each two.
        fileprivate(set) var runs: [ClosedRange<Int64>] = []
        /// All other objects; see `ObjectID.keyText`.
        fileprivate(set) var texts: Set<BinaryText> = []
    }

    private(set) var entities: [BinaryText: Keys] = [:]

    var isEmpty: Bool { entities.isEmpty }

    /// No objects.
    init() {}

    /// - Parameters:
    ///   - number: Only what was changed after this position counts.
    ///   - wanted: The entities that count; nil for all.
    init(_ transactions: [HistoryTransaction], after number: Int64, of wanted: Set<BinaryText>?) {
        var integers: [BinaryText: [Int64]] = [:]
        // Consecutive changes usually belong to one entity.
        var entity: Entity?
        var isWanted = false
        var run: [Int64] = []
        func endRun() {
            if let entity, !run.isEmpty { integers[entity.name, default: []] += run }
            run.removeAll(keepingCapacity: true)
        }
        for transaction in transactions where transaction.number > number {
            for change in transaction.changes {
                if change.entity !== entity {
                    endRun()
                    entity = change.entity
                    isWanted = wanted?.contains(change.entity.name) ?? true
                }
                guard isWanted else { continue }
                if let integer = change.objectID.integer(in: change.entity) {
                    run.append(integer)
                } else {
                    entities[change.entity.name, default: Keys()].texts.insert(change.objectID.keyText)
                }
            }
        }
        endRun()
        for (name, integers) in integers { entities[name, default: Keys()].runs = Self.runs(integers) }
    }

    private static func runs(_ integers: [Int64]) -> [ClosedRange<Int64>] {
        var runs: [ClosedRange<Int64>] = []
        for integer in integers.sorted() {
            if let last = runs.last, last.isFollowed(by: integer...integer) {
                runs[runs.count - 1] = last.lowerBound...max(integer, last.upperBound)
            } else {
                runs.append(integer...integer)
            }
        }
        return runs
    }

    /// Whether the two have no object in common.
    func isDisjoint(with other: ChangedObjects) -> Bool {
        entities.allSatisfy { name, keys in other.entities[name].map(keys.isDisjoint) ?? true }
    }
}

extension ChangedObjects.Keys {
    fileprivate func isDisjoint(with other: Self) -> Bool {
        guard texts.isDisjoint(with: other.texts) else { return false }
        var (mine, others) = (runs[...], other.runs[...])
        while let run = mine.first, let another = others.first {
            if run.overlaps(another) { return false }
            if run.upperBound < another.lowerBound { mine.removeFirst() } else { others.removeFirst() }
        }
        return true
    }
}
