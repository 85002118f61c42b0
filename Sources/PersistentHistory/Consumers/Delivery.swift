/// Which transactions are delivered to a consumer, and which history may be cleaned.
public struct DeliveryRule: Sendable, Equatable, Codable {
    /// Authors that write on behalf of a sync service, with a log of their own (the kit's
    /// `includingCloudKitMirroring`).
    public static let cloudKitMirroring: Set<BinaryText> = [
        "NSCloudKitMirroringDelegate.import", "NSCloudKitMirroringDelegate.export",
    ]

    /// All registered authors, including those that only write.
    public let authors: Set<BinaryText>
    /// Whether transactions by null or unregistered authors are delivered.
    public let deliversUnlisted: Bool
    /// Whether history by unlisted authors is cleaned although it is not delivered.
    public let cleansUnlisted: Bool
    /// Authors whose transactions are neither delivered nor cleaned.
    public let mirroring: Set<BinaryText>
    /// Mirroring authors whose transactions are treated like any other.
    private let included: Set<BinaryText>

    /// Which authors there are, and whose transactions are delivered.
    public init(
        authors: Set<BinaryText>, deliversUnlisted: Bool = true, cleansUnlisted: Bool = false,
        mirroringAuthors: Set<BinaryText> = [], includingMirroring: Bool = false
    ) {
        self.authors = authors
        self.deliversUnlisted = deliversUnlisted
        self.cleansUnlisted = cleansUnlisted
        let all = mirroringAuthors.union(Self.cloudKitMirroring)
        mirroring = includingMirroring ? [] : all
        included = includingMirroring ? all : []
    }

    /// Whether history by this author is delivered to any consumer, and cleaned.
    public func covers(_ author: String?) -> Bool {
        guard let author else { return deliversUnlisted }
        if mirroring.contains(author) { return false }
        return deliversUnlisted || authors.contains(author) || included.contains(author)
    }

    /// Whether history by this author may be cleaned once everybody is past it.
    public func cleans(_ author: String?) -> Bool { covers(author) || cleansUnlisted && isUnlisted(author) }

    /// Whether an author is neither registered nor a mirroring one.
    func isUnlisted(_ author: String?) -> Bool {
        guard let author else { return true }
        return !authors.contains(author) && !mirroring.contains(author) && !included.contains(author)
    }

    /// Whether a transaction of this author is delivered to a consumer: all except its own are.
    public func delivers(_ author: String?, to consumer: String) -> Bool {
        !author.hasSameBytes(as: consumer) && covers(author)
    }

    /// Those of some transactions that a consumer made itself, after a position.
    func own(_ transactions: [HistoryTransaction], after position: Int64, of consumer: String)
        -> [HistoryTransaction]
    {
        transactions.filter { $0.number > position && $0.author.hasSameBytes(as: consumer) && covers(consumer) }
    }

    /// Those of some transactions that a consumer receives, after a position.
    func relevant(_ transactions: [HistoryTransaction], after position: Int64, to consumer: String)
        -> [HistoryTransaction]
    {
        // Transactions of one author often come together.
        var last: (author: String?, isDelivered: Bool)?
        return transactions.filter { transaction in
            guard transaction.number > position else { return false }
            let author = transaction.author
            if let last, last.author.hasSameBytes(as: author) { return last.isDelivered }
            let isDelivered = delivers(author, to: consumer)
            last = (author, isDelivered)
            return isDelivered
        }
    }

    /// The same for rules under which the same history is kept.
    var keeping: String {
        let takesUnlisted = deliversUnlisted || cleansUnlisted
        let listed = takesUnlisted ? [] : authors.union(included).sorted().map(\.text)
        return
            "\(takesUnlisted)\n\(mirroring.sorted().map(\.text).joined(separator: "\t"))\n\(listed.joined(separator: "\t"))"
    }
}

// MARK: - Calls

/// The calls that a batch of transactions makes, in order: transaction by transaction; in each one
/// group by group (an entity and operation, in the order in which they first occur); in each group
/// hook by hook, in the order of registration.
///
/// A pure function of the batch, the hooks and what is already done.
struct DeliveryPlan: Sendable {
    /// Calls that follow each other to one endpoint: they may be handed to it together.
    struct Run: Sendable {
        let endpoint: any HookEndpoint
        let loopEndpoint: (any LoopEndpoint)?
        var calls: [ObserverCall] = []
        /// What its only call lacks: changes of a large transaction.
        var unread: UnreadChanges?

        /// The same with the changes that were read, and their rows where the hook wants them.
        func with(_ changes: [HistoryChange], _ values: RowValues?) -> Run {
            let values = CallValues(values, unread?.values?.maximumBytes)
            return Run(
                endpoint: endpoint, loopEndpoint: loopEndpoint, calls: calls.map { $0.with(changes, values) })
        }
    }

    private(set) var runs: [Run] = []

    /// - Parameters:
    ///   - routes: To each hook, where they are known.
    ///   - values: The rows of the objects, where a hook wants them.
    init(
        _ transactions: some Collection<HistoryTransaction>, hooks: [Hook], routes: [HookRoute]? = nil,
        store: String, consumer: String, done: Set<BinaryText> = [], givenUp: GivenUpCalls = GivenUpCalls(),
        maximumObjects: Int = ObserverCall.maximumObjects, values: RowValues? = nil
    ) {
        guard !hooks.isEmpty else { return }
        let routes = routes ?? hooks.map { HookRoute(store: store, consumer: consumer, hook: $0) }
        for transaction in transactions {
            if transaction.outline != nil { addOutlined(transaction, hooks, routes, done, givenUp) }
            ChangeGroup.forEach(in: transaction) { index, group in
                for place in hooks.indices {
                    let hook = hooks[place]
                    guard hook.matches(entity: group.entity.name, operation: group.operation) else { continue }
                    let most =
                        hook.wantedValues == nil
                        ? maximumObjects : TransactionOutline.pieceSize(of: maximumObjects)
                    group.forEachPart(in: transaction, of: most) { changes, part in
                        let call = ObserverCall(
                            routes[place], transaction, group: index, changes: changes, part: part,
                            values: CallValues(values, hook.wantedValues?.maximumBytes))
                        if !done.isEmpty, done.contains(call.header.delivery) { return }
                        if givenUp.contains(call.header, call.parameters) { return }
                        add(call, to: hook)
                    }
                }
            }
        }
    }

    /// The same for a large transaction: one call at a time, whose changes are read when it is made.
    private mutating func addOutlined(
        _ transaction: HistoryTransaction, _ hooks: [Hook], _ routes: [HookRoute], _ done: Set<BinaryText>,
        _ givenUp: GivenUpCalls
    ) {
        guard let outline = transaction.outline else { return }
        for (index, group) in outline.groups.enumerated() {
            for (hook, route) in zip(hooks, routes)
            where hook.matches(entity: group.entity.name, operation: group.operation) {
                for unread in UnreadChanges.parts(of: transaction, in: group, values: hook.wantedValues) {
                    let header = HookCallHeader(
                        route, transaction.token, group: index, part: unread.part?.index)
                    if done.contains(header.delivery) { continue }
                    let call = ObserverCall(
                        header: header, transaction: transaction, changes: [], part: unread.part)
                    if givenUp.contains(header, call.parameters) { continue }
                    runs.append(
                        Run(
                            endpoint: hook.endpoint, loopEndpoint: hook.loopEndpoint, calls: [call],
                            unread: unread))
                }
            }
        }
    }

    private mutating func add(_ call: consuming ObserverCall, to hook: Hook) {
        let last = runs.endIndex - 1
        if runs.isEmpty || runs[last].endpoint !== hook.endpoint || runs[last].unread != nil {
            runs.append(Run(endpoint: hook.endpoint, loopEndpoint: hook.loopEndpoint))
        }
        runs[runs.endIndex - 1].calls.append(call)
    }
}

/// A transaction's changes of one entity and operation.
private struct ChangeGroup {
    let entity: Entity
    let operation: ChangeOperation
    /// Nil where they are all of the transaction's.
    var changes: ArraySlice<HistoryChange>?
    var count = 1

    /// Of the kind of one of some changes.
    init(_ changes: [HistoryChange], _ index: Int) {
        entity = changes[index].entity
        operation = changes[index].operation
    }

    private struct Kind: Hashable {
        let entity: BinaryText
        let operation: ChangeOperation
    }

    private func has(_ changes: [HistoryChange], _ index: Int) -> Bool {
        guard operation == changes[index].operation else { return false }
        let other = changes[index].entity
        return entity === other || entity.name.hasSameBytes(as: other.name)
    }

    static func forEach(in transaction: HistoryTransaction, _ body: (Int, ChangeGroup) -> Void) {
        let changes = transaction.changes
        if changes.isEmpty { return }
        // Most transactions are of one kind, and need no sorting.
        var whole = ChangeGroup(changes, 0)
        if changes.count == 1 || changes.indices.allSatisfy({ whole.has(changes, $0) }) {
            whole.count = changes.count
            return body(0, whole)
        }

        var indices: [Kind: Int] = [:]
        var groups: [(group: ChangeGroup, changes: [HistoryChange])] = []
        for (index, change) in changes.enumerated() {
            let kind = Kind(entity: BinaryText(change.entity.name), operation: change.operation)
            if let group = indices[kind] {
                groups[group].changes.append(change)
            } else {
                indices[kind] = groups.count
                groups.append((ChangeGroup(changes, index), [change]))
            }
        }
        for (index, found) in groups.enumerated() {
            var group = found.group
            (group.changes, group.count) = (found.changes[...], found.changes.count)
            body(index, group)
        }
    }

    /// Its changes in portions of a size, numbered where there is more than one; nil for all of the transaction's.
    func forEachPart(
        in transaction: HistoryTransaction, of size: Int,
        _ body: (ArraySlice<HistoryChange>?, CallPart?) -> Void
    ) {
        if count <= size { return body(changes, nil) }
        let changes = changes ?? transaction.changes[...]
        let starts = stride(from: changes.startIndex, to: changes.endIndex, by: size)
        for (index, start) in starts.enumerated() {
            let end = min(start + size, changes.endIndex)
            body(changes[start..<end], CallPart(index: index, isLast: end == changes.endIndex))
        }
    }
}
