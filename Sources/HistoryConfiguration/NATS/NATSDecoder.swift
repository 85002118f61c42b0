import HistoryBase

/// Decodes the configuration of `historyd-nats`.
enum NATSDecoder {
    private static let keys = [
        "servers", "credentials", "nkey", "nkeySeed", "tls", "jetStreamDomain", "jetStreamPrefix", "publish",
        "follow",
        "logLevel", "healthyLag",
    ]

    static func decode(_ root: DocumentNode) -> NATSConfiguration? {
        guard let fields = root.document(keys) else { return nil }
        var configuration = NATSConfiguration()
        if let node = fields.required("servers", "a list of servers, such as nats://127.0.0.1:4222") {
            configuration.servers = servers(node)
        }
        configuration.credentials = fields["credentials"]?.filePath()
        configuration.nkey = fields["nkey"].flatMap(nkey)
        configuration.nkeySeed = fields["nkeySeed"]?.filePath()
        if configuration.credentials != nil {
            fields.refuse("nkeySeed", "either credentials or an nkey's seed is given, not both")
        }
        if fields["nkeySeed"] != nil {
            _ = fields.required("nkey", "the nkey's public part beside its seed")
        } else {
            fields.refuse("nkey", "an nkey belongs to its seed, which is missing")
        }
        configuration.tls = fields["tls"].flatMap(tls)
        if let domain = fields["jetStreamDomain"].flatMap(domain) {
            configuration.jetStreamPrefix = "$JS.\(domain).API"
            fields.refuse("jetStreamPrefix", "either a domain or a prefix is given, not both")
        }
        if let prefix = fields["jetStreamPrefix"].flatMap(prefix) { configuration.jetStreamPrefix = prefix }
        if let level = fields["logLevel"]?.choice(LogLevel.allCases) { configuration.logLevel = level }
        if let lag = fields["healthyLag"]?.duration() { configuration.healthyLag = lag }
        var names = Claims()
        configuration.publish = (fields["publish"]?.list(expected: "a list of stores") ?? [])
            .compactMap { publication($0, names: &names) }
        var (followed, paths) = (Claims(), Claims())
        configuration.follow = (fields["follow"]?.list(expected: "a list of mirrors") ?? [])
            .compactMap { node in
                let stores = configuration.publish.map { (file: FileIdentity.of($0.store), name: $0.name) }
                return following(node, names: &followed, paths: &paths, stores: stores)
            }
        if fields["publish"] == nil, fields["follow"] == nil {
            root.report("expected \"publish\" or \"follow\", found neither: there is nothing to do")
        }
        return configuration
    }

    private static func nkey(_ node: DocumentNode) -> String? {
        let expected = "the public part of a user's nkey, 56 letters and digits that begin with U"
        guard let text = node.name(expected: expected) else { return nil }
        guard NKey.isUser(text) else {
            node.report("expected \(expected), found \(text.quotedExcerpt)")
            return nil
        }
        return text
    }

    /// A domain's name is one token of a subject.
    private static func domain(_ node: DocumentNode) -> String? {
        let expected = "a JetStream domain, a word without dots, blanks and wildcards"
        guard let text = node.name(expected: expected) else { return nil }
        guard isSubject(text), !text.utf8.contains(UInt8(ascii: ".")) else {
            node.report("expected \(expected), found \(text.quotedExcerpt)")
            return nil
        }
        return text
    }

    private static func prefix(_ node: DocumentNode) -> String? {
        let expected = "a subject such as hub.js.api, without wildcards"
        guard let text = node.name(expected: expected) else { return nil }
        guard isSubject(text) else {
            node.report("expected \(expected), found \(text.quotedExcerpt)")
            return nil
        }
        return text
    }

    /// Source: https://docs.nats.io/nats-concepts/subjects
    private static func isSubject(_ text: String) -> Bool {
        text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy { token in
            !token.isEmpty
                && token.allSatisfy {
                    $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "*") && $0 != UInt8(ascii: ">")
                }
        }
    }

    private static func servers(_ node: DocumentNode) -> [String] {
        guard let nodes = node.list(expected: "a list of servers") else { return [] }
        if nodes.isEmpty { node.report("expected at least one server, found an empty list") }
        return nodes.compactMap { node in
            guard let text = node.text(expected: "a server's URL") else { return nil }
            guard ["nats://", "tls://"].contains(where: { text.hasPrefix($0) && text.count > $0.count }) else {
                node.report("expected a URL that begins with nats:// or tls://, found \(text.quotedExcerpt)")
                return nil
            }
            return text
        }
    }

    private static func tls(_ node: DocumentNode) -> NATSConfiguration.TLS? {
        guard let fields = node.fields(["ca", "certificate", "key"]) else { return nil }
        let tls = NATSConfiguration.TLS(
            authority: fields["ca"]?.filePath(), certificate: fields["certificate"]?.filePath(),
            key: fields["key"]?.filePath())
        if fields["certificate"] != nil, fields["key"] == nil {
            node.report("expected \"key\" beside \"certificate\"")
        }
        if fields["certificate"] == nil {
            fields.refuse("key", "a key belongs to a certificate, which is missing")
        }
        return tls
    }

    private static func publication(_ node: DocumentNode, names: inout Claims) -> NATSConfiguration.Publication?
    {
        guard
            let fields = node.fields([
                "store", "name", "entities", "feed", "stream", "snapshot", "window", "hold", "beat",
            ])
        else {
            return nil
        }
        let store = fields.required("store", "the store's path")?.filePath()
        let name = streamName(fields, names: &names)
        let feed = fields["feed"].flatMap(feed)
        let stream = fields["stream"].flatMap(stream)
        var publication = NATSConfiguration.Publication(store: store ?? "", name: name ?? "", feed: feed)
        if let stream { publication.stream = stream }
        if let snapshot = fields["snapshot"]?.fields(["every", "keep"]) {
            if let every = snapshot["every"]?.duration() { publication.snapshotInterval = every }
            if let keep = snapshot["keep"]?.integer(in: 1...100) { publication.keptSnapshots = keep }
        }
        if let window = fields["window"]?.integer(in: 1...10_000) { publication.window = window }
        if let hold = fields["hold"]?.duration() { publication.hold = hold }
        publication.entities = fields["entities"].flatMap(entities)
        publication.beat = fields["beat"]?.duration()
        return store == nil || name == nil ? nil : publication
    }

    private static func following(
        _ node: DocumentNode, names: inout Claims, paths: inout Claims, stores: [(file: String, name: String)]
    ) -> NATSConfiguration.Following? {
        guard let fields = node.fields(["name", "path", "entities"]) else { return nil }
        let name = streamName(fields, names: &names)
        let entities = fields["entities"].flatMap(entities)
        guard let node = fields.required("path", "the mirror's path"), let path = node.filePath() else {
            return nil
        }
        let file = FileIdentity.of(path)
        if let published = stores.first(where: { $0.file == file }) {
            node.report(
                "expected a file of the mirror's own, found the store that is published as \"\(published.name)\""
            )
            return nil
        }
        guard paths.claim(file, at: node, as: "the mirror's file"), let name else { return nil }
        return NATSConfiguration.Following(name: name, path: path, entities: entities)
    }

    /// Tables' names. Whether there are such tables is not known here: they may come later.
    private static func entities(_ node: DocumentNode) -> [String]? {
        let expected = "a list of tables' names"
        guard let nodes = node.list(expected: expected) else { return nil }
        if nodes.isEmpty { node.report("expected at least one table, found an empty list") }
        var names = Claims()
        return nodes.compactMap { node in
            guard let name = node.name(expected: "a table's name") else { return nil }
            let folded = name.lowercased()
            guard !folded.hasPrefix("historyd_"), !folded.hasPrefix("sqlite_") else {
                node.report("expected a table that can be tracked, found \(name.quotedExcerpt)")
                return nil
            }
            return names.claim(folded, at: node, as: "table") ? name : nil
        }
    }

    /// The name is part of the stream's name and of subjects.
    private static func streamName(_ fields: Fields, names: inout Claims) -> String? {
        guard let node = fields.required("name", "the stream's name"), let text = node.name() else {
            return nil
        }
        guard text.utf8.count <= 200, text.wholeMatch(of: /[A-Za-z0-9_-]+/) != nil else {
            node.report("expected at most 200 letters, digits, - and _, found \(text.quotedExcerpt)")
            return nil
        }
        guard !text.hasSuffix("_SNAPSHOT") else {
            node.report(
                "expected a name that does not end with _SNAPSHOT, as a stream of snapshots does, found \(text.quotedExcerpt)"
            )
            return nil
        }
        return names.claim(text, at: node, as: "stream") ? text : nil
    }

    private static func feed(_ node: DocumentNode) -> NATSConfiguration.FeedSource? {
        guard let fields = node.fields(["consumer", "context", "socket"]) else { return nil }
        let consumer = fields.required("consumer", "the feed's consumer")?.name()
        let context = fields.required("context", "the feed's context")?.name()
        guard let consumer, let context else { return nil }
        return NATSConfiguration.FeedSource(
            consumer: consumer, context: context, socket: fields["socket"]?.filePath())
    }

    private static func stream(_ node: DocumentNode) -> NATSConfiguration.Stream? {
        guard let fields = node.fields(["create", "replicas", "maxAge", "maxBytes"]) else { return nil }
        return NATSConfiguration.Stream(
            create: fields["create"]?.bool() ?? true, replicas: fields["replicas"]?.integer(in: 1...5) ?? 1,
            maxAge: fields["maxAge"]?.duration(), maxBytes: fields["maxBytes"]?.bytes())
    }
}
