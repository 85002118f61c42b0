import GRDB

/// What to change so that the store's triggers are as requested.
struct TrackingPlan {
    struct Step {
        let table: TableSchema
        let current: Entity?
        let preserved: [String]
    }

    let schema: StoreSchema
    private(set) var condition: RecordingCondition
    private(set) var steps: [Step] = []
    /// Entities whose tables are gone.
    private(set) var dropped: [Entity] = []
    /// Entities whose changes may have gone unrecorded until now, in addition to those of the steps.
    private(set) var unrecorded: Set<BinaryText> = []
    /// What is recorded now; nil if nothing is.
    private(set) var catalog: EntityCatalog?
    /// Why the recording of entities may miss something.
    private(set) var doubts: [BinaryText: [String]] = [:]
    /// Why something that was requested, now or before, is left out.
    private(set) var unfit: [BinaryText: HistoryError] = [:]
    /// The names that are wanted from now on.
    private(set) var names = WantedNames()
    /// The names that the store keeps.
    private(set) var namesBefore = WantedNames()
    /// Whether the names differ from those that the store keeps.
    private var changesNames = false
    /// Whether to save the names with the other changes.
    private(set) var savesNames = true
    /// Whether to place the sentinel, and why.
    private var sentinel: RowidSentinel.Condition
    private var needsSentinel = false
    var placesSentinel: Bool { needsSentinel && sentinel != .isInPlace }
    /// Whether the configuration requests every table. Tables that are gone are then not missed.
    private let followsAll: Bool
    /// The tables that the plan must record; others that cannot be recorded are left out.
    private(set) var demanded: Set<BinaryText> = []

    var isEmpty: Bool {
        guard case .whole(lacksConflicts: false) = condition else { return false }
        return steps.isEmpty && dropped.isEmpty && !changesNames && !placesSentinel
    }

    /// Splits off the first steps, with everything that comes before them. The rest is for other
    /// transactions.
    ///
    /// - Returns: The whole plan and nil if it must be done at once: the history begins again, and names
    ///   all its entities before any of them is written to.
    func split(after count: Int) -> (first: TrackingPlan, rest: TrackingPlan?) {
        if case .broken = condition { return (self, nil) }
        guard steps.count > count else { return (self, nil) }
        var (first, rest) = (self, self)
        first.steps = Array(steps.prefix(count))
        rest.steps = Array(steps.dropFirst(count))
        (rest.dropped, rest.unrecorded, rest.condition) = ([], [], .whole(lacksConflicts: false))
        // The first part saves the names and places the sentinel.
        (rest.changesNames, rest.savesNames, rest.sentinel) = (false, false, .isInPlace)
        return (first, rest)
    }

    /// - Parameters:
    ///   - leavesOutUnfit: Whether a missing table or preserved column is left out instead of being an
    ///     error.
    ///   - replacing: The tables that have replaced others, by the name of the replaced ones.
    init(
        _ db: Database, entities: [BinaryText: [String]?], all: Bool, leavesOutUnfit: Bool = false,
        replacing: [BinaryText: BinaryText] = [:]
    ) throws {
        if try StoreRecorder.isMirror(db) { throw HistoryError.isMirror }
        schema = try StoreSchema(db)
        condition = try RecordingCondition(db, schema)
        // If nothing else is left, everything is made from scratch.
        if case .whole = condition {
            sentinel = try RowidSentinel.condition(db, schema)
        } else {
            sentinel = .isMissing
        }
        followsAll = all && leavesOutUnfit
        var wanted: [BinaryText: [String]?] = [:]
        for (name, preserved) in entities {
            do {
                let table = try TableSchema(name.text, in: schema)
                wanted.updateValue(
                    try fitting(preserved, of: table, leavesOutUnfit: leavesOutUnfit), forKey: table.name)
            } catch let error as HistoryError where leavesOutUnfit && error.code == .notAnEntity {
                unfit[name] = error
            }
        }
        var asked = Set(wanted.keys)
        if !leavesOutUnfit { demanded = asked }
        if all {
            for table in schema.ordinaryTables where wanted[table.name] == nil {
                wanted.updateValue(nil, forKey: table.name)
            }
            if !followsAll { asked.formUnion(wanted.keys) }
        }
        switch condition {
        case .none:
            if try StoreRecorder.hasCoreDataHistory(db) {
                throw HistoryError(
                    .onlyRead,
                    "The store has a history of its own, by Core Data or SwiftData, and is only read.",
                    hint: "`historyctl history` reads it; the daemon does with \"source\": \"coreData\".")
            }
            if entities.isEmpty, !all { throw HistoryError.notTracked(db) }
            if wanted.isEmpty, let error = unfit.min(by: { $0.key < $1.key })?.value { throw error }
            try plan(wanted, asked)
        case .whole:
            let catalog = try EntityCatalog(db)
            self.catalog = catalog
            let kept = try WantedNames(db)
            let before = kept ?? WantedNames(tracked: followsAll ? [] : Array(catalog.tracked.values))
            (names, namesBefore) = (before, before)
            for (old, new) in replacing { names.follow(old.text, to: new.text) }
            try plan(wanted, asked)
            changesNames = names != before
            savesNames = changesNames || kept == nil
        case .broken(let tracked):
            for (name, preserved) in tracked { wanted[name] = (wanted[name] ?? nil) ?? preserved }
            // If even that is damaged, the remaining triggers show what was tracked.
            let kept = RecordingFormat.keepsNames(schema) ? (try? WantedNames(db)) ?? nil : nil
            if let kept { names = kept } else if !followsAll { asked.formUnion(tracked.keys) }
            if wanted.isEmpty, names.all.isEmpty { throw HistoryError.notTracked(db) }
            try plan(wanted, asked)
            unrecorded = Set(wanted.keys).union(Set(names: steps.map(\.table.name)))
        }
    }

    /// The columns to preserve that the table has.
    private mutating func fitting(_ preserved: [String]?, of table: TableSchema, leavesOutUnfit: Bool) throws
        -> [String]?
    {
        guard leavesOutUnfit, let preserved else { return preserved }
        return try preserved.filter { column in
            do {
                _ = try table.entity(shape: 0, preserving: [column])
                return true
            } catch let error as HistoryError {
                unfit[table.name] = error
                return false
            }
        }
    }

    /// - Parameter asked: The names of the tables that are wanted from now on.
    private mutating func plan(_ wanted: [BinaryText: [String]?], _ asked: Set<BinaryText>) throws {
        var wanted = wanted
        let followed = FollowedTables(schema)
        let currents = currents(followed)
        for name in currents.keys where wanted[name] == nil { wanted.updateValue(nil, forKey: name) }
        lookForNames(currents, &wanted)
        for (name, preserved) in wanted.sorted(by: { $0.key < $1.key }) {
            let table: TableSchema
            do {
                table = try TableSchema(name.text, in: schema)
            } catch let error as HistoryError where error.code == .notAnEntity {
                // A table that was requested as one of all, or that has become something else.
                unfit[name] = error
                continue
            }
            if !table.doubts.isEmpty { doubts[table.name] = table.doubts }
            let current = currents[name]
            let kept = current.map { followed.preserved($0, in: table) } ?? []
            // A missing column may have been renamed: its preserved values stay.
            let isRenamed = unfit[name] != nil
            // If the table is the same, its triggers show what became of its former columns.
            let isSame = current.flatMap(followed.name(of:)).hasSameBytes(as: table.name)
            let known = isSame ? Set<BinaryText>(names: current?.columns.map(\.name) ?? []) : []
            let missed = (names[name.text]?.preserved ?? []).filter { !known.contains($0) }
            let step = Step(
                table: table, current: current,
                preserved: preserved.map { isRenamed ? $0 + kept : $0 } ?? kept + table.having(missed))
            let needsSentinel = RowidSentinel.isNeeded(for: table)
            self.needsSentinel = self.needsSentinel || needsSentinel
            // What was known of its rows now refers to other rows.
            let hasMoved = needsSentinel && current != nil && sentinel == .isMoved
            if hasMoved { unrecorded.insert(table.name) }
            if try hasMoved || !isUpToDate(step) { steps.append(step) }
            if asked.contains(name) || names[name.text] != nil {
                let absent = preserved == nil ? missed.filter { !table.has($0) } : []
                names.want(table.name, preserving: table.having(step.preserved.asBinary).asBinary + absent)
            }
        }
    }

    /// Looks up the wanted names. A table that has its name back is tracked again; a name without a table
    /// is missed.
    private mutating func lookForNames(
        _ currents: [BinaryText: Entity], _ wanted: inout [BinaryText: [String]?]
    ) {
        for (name, entity) in currents where !SQLText.areSame(name.text, entity.name) {
            names.follow(entity.name, to: name.text)
        }
        for entry in names.all {
            if let table = schema.table(entry.name.text) {
                names[entry.name.text]?.renamedTo = nil
                if wanted[table.name] == nil { wanted.updateValue(nil, forKey: table.name) }
            } else if entry.renamedTo.map({ wanted[$0] != nil }) != true {
                names[entry.name.text]?.renamedTo = nil
                if !followsAll, unfit[entry.name] == nil { unfit[entry.name] = .isMissing(entry.name) }
            }
        }
    }

    /// The tracked entities, by the present names of their tables.
    private mutating func currents(_ followed: FollowedTables) -> [BinaryText: Entity] {
        var currents: [BinaryText: Entity] = [:]
        var others: [Entity] = []
        for entity in (catalog?.tracked.values).map(Array.init) ?? [] {
            if let table = schema.table(entity.name), table.type == "table" {
                currents[table.name] = entity
            } else {
                others.append(entity)
            }
        }
        for entity in others {
            if let name = followed.name(of: entity), currents[name] == nil {
                currents[name] = entity
            } else {
                dropped.append(entity)
                unrecorded.insert(entity.name)
            }
        }
        dropped.sort { $0.name.precedes($1.name) }
        return currents
    }

    private func isUpToDate(_ step: Step) throws -> Bool {
        guard let current = step.current else { return false }
        let wanted = try step.table.entity(shape: current.shape, preserving: step.preserved)
        guard wanted == current, !Self.hasNewerTriggers(step.table) else { return false }
        let writer = TriggerWriter(table: step.table, entity: wanted)
        let triggers = writer.triggers()
        let present = step.table.triggers.filter(\.isOurs)
        let sql = Dictionary(present.map { ($0.name, $0.sql) }) { first, _ in first }
        let others = schema.ownObjects(ofShape: current.shape).filter { $0.type != "trigger" }.map(\.name)
        return sql.count == triggers.count
            && triggers.allSatisfy { trigger in
                sql[trigger.name].map { $0.hasSameBytes(as: trigger.sql) } ?? false
            }
            && Set(others).isSuperset(of: writer.knownRowsNames + RowidKeeper.names(of: step.table, wanted))
    }

    /// Whether the application has created triggers since ours. SQLite would run them first, and record
    /// their effects before the cause.
    private static func hasNewerTriggers(_ table: TableSchema) -> Bool {
        guard let oldest = table.triggers.filter(\.isOurs).map(\.rowid).min() else { return false }
        return table.triggers.contains { !$0.isOurs && $0.rowid > oldest }
    }
}
