/// Selects transactions and changes for a reader of the history. By default, everything.
public struct HistoryFilter: Sendable, Equatable {
    /// Only these authors; nil for any, undeclared writers included.
    public var authors: Set<BinaryText>?
    /// Authors whose transactions are left out.
    public var excludedAuthors: Set<BinaryText> = []
    /// Whether transactions without an author are selected in addition to those of `authors`.
    public var includesUndeclared = false
    /// Only transactions of these processes: by name in a Core Data store, otherwise by number; nil for any.
    public var processes: Set<BinaryText>?
    /// Only transactions of apps with these bundle identifiers, which a Core Data store has; nil for any.
    public var bundles: Set<BinaryText>?
    /// Only transactions of these contexts; nil for any.
    public var contexts: Set<BinaryText>?
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

    /// Only updates of one of these properties; nil for any change. An update whose properties are
    /// unknown is excluded.
    public var properties: Set<BinaryText>?

    /// A filter that selects everything.
    public init() {}

    package func accepts(_ origin: Origin) -> Bool {
        if let since, origin.timestamp < since { return false }
        if let until, origin.timestamp > until { return false }
        guard acceptsProgram(origin) else { return false }
        guard let author = origin.author else { return authors == nil || includesUndeclared }
        if excludedAuthors.contains(author) { return false }
        return authors?.contains(author) ?? true
    }

    private func acceptsProgram(_ origin: Origin) -> Bool {
        func accepts(_ wanted: Set<BinaryText>?, _ name: String?) -> Bool {
            wanted.map { wanted in name.map { wanted.contains($0) } ?? false } ?? true
        }
        let application = origin.authorship.application
        return accepts(processes, application?.process ?? origin.processID.map { String($0) })
            && accepts(bundles, application?.bundleID) && accepts(contexts, origin.authorship.context)
    }

    @inlinable package func accepts(_ entity: Entity, _ operation: ChangeOperation) -> Bool {
        (entities?.contains(entity.name) ?? true) && (operations?.contains(operation) ?? true)
            && (properties == nil || operation == .update)
    }

    /// Whether unrecorded changes of these entities may match, whatever their author.
    package func accepts(recreated names: [String], at time: HistoryTimestamp) -> Bool {
        if let since, time < since { return false }
        if let until, time > until { return false }
        if processes != nil || bundles != nil || contexts != nil || properties != nil { return false }
        return entities.map { !$0.isDisjoint(with: names.asBinary) } ?? true
    }

    @inlinable package func accepts(_ change: ObjectID) -> Bool { objects?.contains(change) ?? true }

    /// The part of the filter that needs the whole change.
    @inlinable package func accepts(_ change: HistoryChange) -> Bool {
        properties.map { wanted in change.changedProperties.contains { wanted.contains($0) } } ?? true
    }
}
