/// Which transactions, and which of their changes, a reader wants. Everything, unless said otherwise.
public struct HistoryFilter: Sendable, Equatable {
    /// Only these authors; nil for any, undeclared writers included.
    public var authors: Set<BinaryText>?
    /// Authors whose transactions are left out.
    public var excludedAuthors: Set<BinaryText> = []
    /// Whether transactions without an author are selected in addition to those of `authors`.
    public var includesUndeclared = false
    /// The earliest time, inclusive.
    public var since: HistoryTimestamp?
    /// The latest time, inclusive.
    public var until: HistoryTimestamp?
    /// Only changes of these entities; nil for all.
    public var entities: Set<BinaryText>?
    /// Only these operations; nil for all.
    public var operations: Set<ChangeOperation>?
    /// Only changes of one of these objects, in one of `entities`. If the columns of a key were renamed, the object
    /// has one id for each name.
    public var objects: Set<ObjectID>?

    /// A filter that selects everything.
    public init() {}

    func accepts(_ origin: Origin) -> Bool {
        if let since, origin.timestamp < since { return false }
        if let until, origin.timestamp > until { return false }
        guard let author = origin.author else { return authors == nil || includesUndeclared }
        if excludedAuthors.contains(author) { return false }
        return authors?.contains(author) ?? true
    }

    func accepts(_ entity: Entity, _ operation: ChangeOperation) -> Bool {
        (entities?.contains(entity.name) ?? true) && (operations?.contains(operation) ?? true)
    }

    /// Whether unrecorded changes of these entities may be among what is wanted, whatever their author.
    func accepts(recreated names: [String], at time: HistoryTimestamp) -> Bool {
        if let since, time < since { return false }
        if let until, time > until { return false }
        return entities.map { !$0.isDisjoint(with: names.asBinary) } ?? true
    }

    func accepts(_ change: ObjectID) -> Bool { objects?.contains(change) ?? true }
}
