import PersistentHistory

/// Decodes one entry of `stores`.
struct StoreDecoder {
    /// The path of each replica in the whole configuration, by the identity of its file.
    var replicas = Claims()
    /// The plugins that contexts name; they are known once the manifests are read.
    var plugins: [(name: String, node: DocumentNode)] = []

    /// Which program records the history of the store that is being decoded.
    private var source = Entity.Source.recorded

    private static let keys =
        [
            "name", "path", "entities", "authors", "unlistedAuthors", "cleanUnlisted", "includingMirroring",
            "mirroringAuthors", "clean", "poll", "healthyLag", "autoStart",
            "mirror", "source",
        ] + TemplateFields.keys

    /// The template of the entry that is being decoded, if it has a folder.
    private var template: TemplateFields?

    /// The conditions of feeds, with their stores.
    private(set) var conditions: [(store: StoreConfiguration, condition: RowCondition, node: DocumentNode)] = []
    private var conditionsOfStore: [(condition: RowCondition, node: DocumentNode)] = []

    /// What an entry describes.
    enum Entry {
        case store(StoreConfiguration)
        case template(StoreTemplate)
    }

    /// Nil if the store or one of its authors has no valid name.
    mutating func decode(_ node: DocumentNode, names: inout Claims, paths: inout Claims) -> Entry? {
        guard let fields = node.fields(Self.keys) else { return nil }
        let name = fields.name(as: "store", &names)
        let hasFolder = fields["folder"] != nil
        template = hasFolder ? TemplateFields(fields) : nil
        let path = hasFolder ? "" : Self.path(fields, &paths)
        source = fields["source"]?.choice(Entity.Source.allCases) ?? .recorded
        let entities = fields["entities"].flatMap(Self.entities)
        let isAll = entities?.contains { $0.name == Self.everyTable } ?? false
        let named = entities?.filter { $0.name != Self.everyTable }
        // The tables that will exist are not known.
        let tracked = isAll ? nil : named?.map(\.name)
        let authors = fields["authors"].map { self.authors($0, tracked: tracked) } ?? []
        let unlisted =
            if let node = fields["unlistedAuthors"] {
                node.choice(UnlistedAuthors.allCases)
            } else { UnlistedAuthors.deliver }
        // An unreadable value does not make another key wrong, too.
        if unlisted == .deliver {
            fields.refuse("cleanUnlisted", "only with unlistedAuthors \"ignore\"; what is delivered is cleaned")
        }
        var store = StoreConfiguration(
            name: name ?? "", path: path ?? "", entities: named, authors: authors ?? [],
            unlistedAuthors: unlisted ?? .deliver, cleansUnlisted: fields["cleanUnlisted"]?.bool() ?? false,
            includingMirroring: fields["includingMirroring"]?.bool() ?? false,
            mirroringAuthors: fields["mirroringAuthors"]?.names("a list of author names") ?? [],
            clean: fields["clean"].flatMap(CleanDecoder.decode) ?? CleanConfiguration(),
            poll: fields["poll"]?.duration(),
            healthyLag: fields["healthyLag"]?.duration() ?? StoreConfiguration.defaultHealthyLag,
            autoStart: fields["autoStart"]?.bool() ?? true)
        store.tracksEveryTable = isAll
        store.isMirror = fields["mirror"]?.bool() ?? false
        if store.isMirror { fields.refuse("entities", "a mirror has the entities of its source") }
        store.source = source
        // The stores of a template are not known.
        if !hasFolder { conditions += conditionsOfStore.map { (store, $0.condition, $0.node) } }
        conditionsOfStore = []
        if source.isOnlyRead { Self.refuseChanges(fields) }
        guard name != nil, path != nil, authors != nil else { return nil }
        return hasFolder ? template?.template(of: store).map { .template($0) } : .store(store)
    }

    private static func path(_ fields: Fields, _ paths: inout Claims) -> String? {
        TemplateFields.refuse(fields)
        return fields.required("path", "a path, or a \"folder\" of stores").flatMap { node in
            node.filePath().flatMap { path in
                paths.claim(FileIdentity.of(path), at: node, as: "the store's file") ? path : nil
            }
        }
    }

    /// A store that Core Data writes is only read.
    private static func refuseChanges(_ fields: Fields) {
        fields.refuse(
            "entities",
            "Core Data records what its model says; a store with \"source\": \"coreData\" is only read")
        for key in ["clean", "cleanUnlisted"] {
            fields.refuse(key, "the app that owns the store decides what is deleted of its history")
        }
        fields.refuse("mirror", "a mirror has the history that historyd recorded")
    }

    /// Refuses keys that need the rows of a store: these require a store that historyd records.
    private static func refuseRows(_ fields: Fields, _ kind: ContextKind?) {
        let feed = "of a store that Core Data writes a feed tells the changes"
        switch kind {
        case .replica:
            fields.refuse("kind", "a replica copies recorded rows; \(feed)")
        case .plugin: fields.refuse("kind", "a plugin's context is filled with recorded rows; \(feed)")
        case .feed, nil:
            for key in ["where", "values", "maximumValueBytes"] {
                fields.refuse(key, "rows are read only of a store in which historyd records")
            }
        }
    }

    /// Stands for every table.
    private static let everyTable = "*"

    private static func entities(_ node: DocumentNode) -> [TrackedEntity]? {
        if case .string(everyTable) = node.value.content { return [TrackedEntity(name: everyTable)] }
        guard let members = node.members(expected: "an object of entities by name, or \"*\" for every table")
        else {
            return nil
        }
        if members.isEmpty {
            node.report(
                "expected at least one entity; leave the key out where \"historyctl track\" has named them")
        }
        return members.map { member in
            if member.name.isEmpty || member.name.hasControlCharacters {
                member.report("expected an entity's name, found \(member.name.quotedExcerpt)")
            }
            let fields = member.node.fields(["preserve"])
            if member.name == everyTable {
                fields?.refuse("preserve", "columns are preserved of an entity that is named")
            }
            let columns = fields?["preserve"]?.names("a list of column names")
            return TrackedEntity(name: member.name, preserve: columns ?? [])
        }
    }

    // MARK: Authors and contexts

    private mutating func authors(_ node: DocumentNode, tracked: [String]?) -> [AuthorConfiguration]? {
        guard let nodes = node.list(expected: "a list of authors") else { return nil }
        var names = Claims()
        var authors: [AuthorConfiguration] = []
        for node in nodes {
            if let author = self.author(node, names: &names, tracked: tracked) { authors.append(author) }
        }
        return authors.count == nodes.count ? authors : nil
    }

    private mutating func author(
        _ node: DocumentNode, names: inout Claims, tracked: [String]?
    ) -> AuthorConfiguration? {
        guard let fields = node.fields(["name", "batch", "contexts", "startAt", "batchWindow", "ownProcesses"])
        else { return nil }
        let name = fields.name(as: "author", &names)
        let isBatch = fields["batch"]?.bool() ?? false
        var contexts: [ContextConfiguration] = []
        if let node = fields["contexts"], let nodes = node.list(expected: "a list of contexts") {
            if isBatch, !nodes.isEmpty {
                fields.refuse("contexts", "a batch author only writes and has no contexts")
            }
            var names = Claims()
            contexts = nodes.compactMap { context($0, names: &names, tracked: tracked) }
        }
        if isBatch { fields.refuse("startAt", "a batch author only writes and has no position") }
        let startAt = fields["startAt"]?.choice(StartingPosition.allCases) ?? .oldest
        if isBatch { fields.refuse("batchWindow", "a batch author only writes and has no passes") }
        let window = fields["batchWindow"]?.duration(from: .none, upTo: .longestWindow) ?? .zero
        if isBatch { fields.refuse("ownProcesses", "a batch author only writes and receives nothing") }
        let processes = fields["ownProcesses"]?.names("a list of names of processes or apps") ?? []
        return name.map {
            AuthorConfiguration(
                name: $0, isBatch: isBatch, contexts: contexts, startAt: startAt, batchWindow: window,
                ownProcesses: processes)
        }
    }

    private static let contextKeys = [
        "name", "kind", "path", "entities", "window", "mode", "group", "properties", "where", "values",
        "maximumValueBytes", "largeIntegers", "plugin", "healthyLag",
    ]

    private enum ContextKind: String, CaseIterable {
        case replica, feed, plugin

        /// The keys that only this kind has.
        var keys: [String] {
            switch self {
            case .replica: ["path", "mode", "group"]
            case .feed:
                ["window", "properties", "where", "values", "maximumValueBytes", "largeIntegers"]
            case .plugin: ["plugin"]
            }
        }

        var title: String { self == .plugin ? "a plugin's context" : "a \(rawValue)" }
    }

    private mutating func context(
        _ node: DocumentNode, names: inout Claims, tracked: [String]?
    ) -> ContextConfiguration? {
        guard let fields = node.fields(Self.contextKeys) else { return nil }
        let name = fields.name(as: "context", &names)
        let kind = fields.required("kind", ContextKind.allCases.map(\.rawValue).alternatives)?
            .choice(ContextKind.allCases)
        if source.isOnlyRead { Self.refuseRows(fields, kind) }
        for other in ContextKind.allCases {
            guard let kind, kind != other else { continue }
            let owner = other == .plugin ? "a context of the kind \"plugin\"" : other.title
            for key in other.keys { fields.refuse(key, "\(kind.title) has no \(key); only \(owner) has") }
        }
        let decodedKind: ContextConfiguration.Kind?
        switch kind {
        case .replica:
            let access = access(fields)
            decodedKind = replica(fields).map { .replica(path: $0, access: access) }
        case .feed:
            let window = fields["window"]?.integer(in: 1...ContextConfiguration.largestWindow)
            let filter = fields.filter(
                isOfOneEntity: fields["entities"]?.value.isListOfOne ?? false, "\"entities\" with one name")
            if let node = fields["where"], let condition = filter.condition,
                case .array(let values)? = fields["entities"]?.value.content,
                case .string(let entity)? = values.first?.content
            {
                conditionsOfStore.append((RowCondition(entity: entity, condition), node))
            }
            decodedKind = .feed(
                window: window ?? ContextConfiguration.defaultWindow,
                maximumValueBytes: fields.maximumValueBytes(),
                largeIntegers: fields["largeIntegers"]?.choice(LargeIntegers.allCases) ?? .number,
                properties: filter.properties, condition: filter.condition)
        case .plugin:
            let node = fields.required("plugin", "the name of a plugin of a manifest")
            let plugin = node.flatMap { node in
                node.name(expected: "the name of a plugin of a manifest").map { ($0, node) }
            }
            if let plugin { plugins.append(plugin) }
            decodedKind = plugin.map { .plugin(name: $0.0) }
        case nil: decodedKind = nil
        }
        if kind != .feed { fields.refuse("healthyLag", "only a feed has a healthyLag of its own") }
        let entities = fields["entities"]?.names("a list of entities", of: "entity", known: tracked)
        let healthyLag = fields["healthyLag"]?.duration()
        guard let name, let decodedKind else { return nil }
        return ContextConfiguration(
            name: name, kind: decodedKind, entities: entities, healthyLag: healthyLag)
    }

    private func access(_ fields: Fields) -> ReplicaAccess? {
        let mode = fields["mode"]?.replicaMode()
        let group = fields["group"]?.name(expected: "a group's name")
        if let group, let node = fields["group"] { template?.checkPlaceholders(of: group, at: node) }
        return mode == nil && group == nil ? nil : ReplicaAccess(mode: mode, group: group)
    }

    private mutating func replica(_ fields: Fields) -> String? {
        guard let node = fields.required("path", "the replica's path"), let path = node.filePath() else {
            return nil
        }
        template?.checkReplica(path, at: node)
        let file = template == nil ? FileIdentity.ofName(path) : path
        return replicas.claim(file, at: node, as: "a replica's file") ? path : nil
    }
}

extension DocumentNode {
    /// A mode of chmod(1): read and write only, and both for the owner, which maintains the file.
    fileprivate func replicaMode() -> UInt32? {
        let expected = "a mode such as \"0640\", of digits 0, 2, 4 and 6, with 6 for the owner"
        guard let text = string(expected: expected) else { return nil }
        let digits =
            text.utf8.count == 4 && text.utf8.first == UInt8(ascii: "0")
            ? text.utf8.dropFirst() : text.utf8[...]
        guard digits.count == 3, digits.first == UInt8(ascii: "6"),
            digits.allSatisfy({ "0246".utf8.contains($0) })
        else {
            report("expected \(expected), found \(text.quotedExcerpt)")
            return nil
        }
        return digits.reduce(0) { $0 << 3 | UInt32($1 - UInt8(ascii: "0")) }
    }
}
