import PersistentHistory

/// The keys of an entry with a folder, and the rules for its texts.
struct TemplateFields {
    static let keys = [
        "folder", "pattern", "recursive", "maximumStores", "keepState", "rest", "metricsPerStore",
    ]

    private let folder: String?
    private let pattern: NamePattern?
    private let isRecursive: Bool
    private let maximumStores: Int
    private let keepState: Duration?
    private let rest: (time: Duration, node: DocumentNode)?
    private let hasMetricsPerStore: Bool

    /// Refuses these keys in an entry without a folder.
    static func refuse(_ fields: Fields) {
        for key in keys { fields.refuse(key, "only an entry with a \"folder\" has it") }
    }

    init(_ fields: Fields) {
        folder = fields["folder"]?.filePath(expected: "a folder's path")
        let expected = "a pattern of file names such as \"*.sqlite\""
        let node = fields.required("pattern", expected)
        let text = node?.name(expected: expected)
        if let text, text.utf8.contains(UInt8(ascii: "/")) {
            node?.report(
                "expected \(expected), found \(text.quotedExcerpt); \"recursive\" includes folders below")
            pattern = nil
        } else {
            pattern = text.map(NamePattern.init)
        }
        isRecursive = fields["recursive"]?.bool() ?? false
        maximumStores =
            fields["maximumStores"]?.integer(in: 1...StoreTemplate.largestMaximum)
            ?? StoreTemplate.defaultMaximum
        keepState = fields["keepState"]?.duration()
        rest = fields["rest"].flatMap { node in node.duration(upTo: .longestDelay).map { ($0, node) } }
        hasMetricsPerStore = fields["metricsPerStore"]?.bool() ?? false
        fields.refuse("path", "an entry with a \"folder\" has no path: each file in the folder is a store")
        fields.refuse("poll", "a folder is watched by inotify, and so are its stores")
        if let node = fields["name"], case .string(let name) = node.value.content {
            checkPlaceholders(of: name, at: node)
            Self.requirePlaceholder(in: name, at: node)
        }
    }

    func template(of store: StoreConfiguration) -> StoreTemplate? {
        if let rest, !store.authors.allSatisfy(\.contexts.isEmpty) {
            rest.node.report("a store with contexts stays open; leave \"rest\" or \"contexts\" out")
        }
        guard let folder, let pattern else { return nil }
        var store = store
        store.rest = rest?.time
        return StoreTemplate(
            folder: folder.withoutLastSlashes, pattern: pattern, isRecursive: isRecursive,
            maximumStores: maximumStores, keepState: keepState, hasMetricsPerStore: hasMetricsPerStore,
            prototype: store)
    }

    // MARK: Texts with placeholders

    func checkPlaceholders(of text: String, at node: DocumentNode) {
        for unknown in TemplateText(text).unknown {
            node.report("unknown placeholder \(unknown.quoted). Allowed: {name}, {path}")
        }
    }

    private static func requirePlaceholder(in text: String, at node: DocumentNode) {
        guard !TemplateText(text).hasPlaceholder else { return }
        node.report(
            "expected {name} or {path} in it, because each store needs its own; found \(text.quotedExcerpt)")
    }

    /// A replica in the folder whose name matches the pattern would be a store itself.
    func checkReplica(_ path: String, at node: DocumentNode) {
        checkPlaceholders(of: path, at: node)
        Self.requirePlaceholder(in: path, at: node)
        guard let folder, let pattern else { return }
        let beginning = TemplateText(path).beginning
        let home = FileIdentity.of(beginning.isEmpty ? "/" : PathNames.parent(of: "\(beginning)?"))
        let own = FileIdentity.of(folder)
        // If a placeholder is part of a folder's name, any folder from there on may match.
        let hasFolderByName = TemplateText(path).pattern.text.utf8
            .dropFirst(beginning.utf8.count).contains(UInt8(ascii: "/"))
        let isBelow = "\(home)/".hasPrefix("\(own)/")
        let mayBeInFolder =
            home == own || isRecursive && isBelow
            || hasFolderByName && (isBelow || "\(own)/".hasPrefix(home == "/" ? "/" : "\(home)/"))
        let name = path.utf8.split(separator: UInt8(ascii: "/")).last.map { String(Substring($0)) } ?? ""
        guard mayBeInFolder, TemplateText(name).pattern.intersects(pattern) else { return }
        node.report(
            "the replica would be a store of this entry: it is in the folder, and its name fits the pattern. Put it elsewhere"
        )
    }
}

extension String {
    fileprivate var withoutLastSlashes: String {
        var text = self
        while text.utf8.count > 1, text.utf8.last == UInt8(ascii: "/") { text.removeLast() }
        return text
    }
}
