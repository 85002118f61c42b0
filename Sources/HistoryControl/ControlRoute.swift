import FoundationEssentials

/// How commands look in HTTP: `POST /v1/pause?store=contacts`.
extension ControlCommand {
    public enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case delete = "DELETE"
    }

    public var method: Method { route.method }

    /// Path and query.
    public var target: String {
        let (_, path, query) = route
        var components = URLComponents()
        components.path = "/v1/\(path)"
        let items = query.compactMap { name, value in value.map { URLQueryItem(name: name, value: $0) } }
        if !items.isEmpty { components.queryItems = items }
        return components.string ?? components.path
    }

    private var route: (method: Method, path: String, query: [(String, String?)]) {
        switch self {
        case .status: (.get, "status", [])
        case .consumers(let store): (.get, "consumers", [("store", store)])
        case .hooks: (.get, "hooks", [])
        case .addHooks(let addition):
            (
                .post, "hooks",
                [
                    ("before", addition.before?.uuidString), ("persist", addition.persist ? "true" : nil),
                    ("file", addition.file),
                ]
            )
        case .removeHooks(let selection): (.delete, "hooks", selection.query)
        case .reload: (.post, "reload", [])
        case .pause(let store): (.post, "pause", [("store", store)])
        case .resume(let store): (.post, "resume", [("store", store)])
        case .run(let store, let timeout): (.post, "run", [("store", store), ("timeout", timeout)])
        case .wait(let wait):
            (
                .get, "wait",
                [
                    ("store", wait.store), ("consumer", wait.consumer), ("token", wait.token),
                    ("timeout", wait.timeout),
                ]
            )
        case .follow(let follow):
            (
                .get, "follow",
                [("store", follow.store), ("consumer", follow.consumer), ("after", follow.after)]
            )
        case .feed(let feed): (.get, "feed", feed.query)
        case .acknowledge(let feed, let token): (.post, "feed/acknowledge", feed.query + [("token", token)])
        case .clean(let clean):
            (
                .post, "clean",
                [
                    ("store", clean.store), ("dryRun", clean.dryRun ? "true" : nil),
                    ("force", clean.force ? "true" : nil),
                ]
            )
        case .resync(let resync):
            (
                .post, "resync",
                [("context", resync.context), ("store", resync.store), ("consumer", resync.consumer)]
            )
        case .deadLetters(let store): (.get, "dead-letters", [("store", store)])
        case .retryDeadLetters(let selection): (.post, "dead-letters/retry", selection.query)
        case .dropDeadLetters(let selection): (.delete, "dead-letters", selection.query)
        case .logLevel: (.get, "log-level", [])
        case .setLogLevel(let level): (.put, "log-level", [("level", level)])
        }
    }

    /// Reads a request's first line.
    ///
    /// - Throws: `ControlError` that says what is wrong with it.
    public init(method: String, target: String) throws(ControlError) {
        guard let components = URLComponents(string: target) else {
            throw ControlError(.badRequest, "\"\(target)\" is no path with a query.")
        }
        let commands = try Self.commands(at: components.path)
        guard let make = commands.first(where: { $0.0.rawValue == method })?.1 else {
            let allowed = commands.map(\.0.rawValue).joined(separator: " and ")
            throw ControlError(.wrongMethod, "\(components.path) takes \(allowed), not \(method).")
        }
        var query = try QueryReader(components.queryItems ?? [])
        self = try make(&query)
        try query.finish()
    }

    private typealias Make = (inout QueryReader) throws(ControlError) -> ControlCommand

    private static func commands(at path: String) throws(ControlError) -> [(Method, Make)] {
        switch path {
        case "/v1/status": [(.get, { _ in .status })]
        case "/v1/consumers": [(.get, { .consumers(store: $0.take("store")) })]
        case "/v1/hooks":
            [
                (.get, { _ in .hooks }),
                (.post, { (query) throws(ControlError) in .addHooks(try HookAddition(&query)) }),
                (.delete, { (query) throws(ControlError) in .removeHooks(try HookSelection(&query)) }),
            ]
        case "/v1/reload": [(.post, { _ in .reload })]
        case "/v1/pause": [(.post, { .pause(store: $0.take("store")) })]
        case "/v1/resume": [(.post, { .resume(store: $0.take("store")) })]
        case "/v1/run": [(.post, { .run(store: $0.take("store"), timeout: $0.take("timeout")) })]
        case "/v1/wait":
            [
                (
                    .get,
                    { (query) throws(ControlError) in
                        .wait(
                            WaitRequest(
                                store: query.take("store"), consumer: try query.need("consumer"),
                                token: try query.need("token"), timeout: query.take("timeout")))
                    }
                )
            ]
        case "/v1/follow":
            [
                (
                    .get,
                    {
                        .follow(
                            FollowRequest(
                                store: $0.take("store"), consumer: $0.take("consumer"), after: $0.take("after"))
                        )
                    }
                )
            ]
        case "/v1/feed":
            [(.get, { (query) throws(ControlError) in .feed(try FeedRequest(&query)) })]
        case "/v1/feed/acknowledge":
            [
                (
                    .post,
                    { (query) throws(ControlError) in
                        .acknowledge(try FeedRequest(&query), token: try query.need("token"))
                    }
                )
            ]
        case "/v1/clean":
            [
                (
                    .post,
                    { (query) throws(ControlError) in
                        .clean(
                            CleanRequest(
                                store: query.take("store"), dryRun: try query.flag("dryRun"),
                                force: try query.flag("force")))
                    }
                )
            ]
        case "/v1/resync":
            [
                (
                    .post,
                    { (query) throws(ControlError) in
                        .resync(
                            ResyncRequest(
                                context: try query.need("context"), store: query.take("store"),
                                consumer: query.take("consumer")))
                    }
                )
            ]
        case "/v1/dead-letters":
            [
                (.get, { .deadLetters(store: $0.take("store")) }),
                (
                    .delete,
                    { (query) throws(ControlError) in .dropDeadLetters(try DeadLetterSelection(&query)) }
                ),
            ]
        case "/v1/dead-letters/retry":
            [
                (
                    .post,
                    { (query) throws(ControlError) in .retryDeadLetters(try DeadLetterSelection(&query)) }
                )
            ]
        case "/v1/log-level":
            [
                (.get, { _ in .logLevel }),
                (.put, { (query) throws(ControlError) in .setLogLevel(try query.need("level")) }),
            ]
        default:
            throw ControlError(
                .unknownRequest, "There is nothing at \"\(path)\". Begin with GET /v1/status.")
        }
    }
}

/// Takes the parameters of a query one by one, and knows what was not asked for.
struct QueryReader {
    private var values: [String: String] = [:]

    init(_ items: [URLQueryItem]) throws(ControlError) {
        for item in items {
            guard values.updateValue(item.value ?? "", forKey: item.name) == nil else {
                throw ControlError(.badRequest, "\"\(item.name)\" is given twice.")
            }
        }
    }

    /// Nil where it is not there, or empty.
    mutating func take(_ name: String) -> String? {
        guard let value = values.removeValue(forKey: name), !value.isEmpty else { return nil }
        return value
    }

    mutating func need(_ name: String) throws(ControlError) -> String {
        guard let value = take(name) else { throw ControlError(.badRequest, "\"\(name)\" is missing.") }
        return value
    }

    mutating func flag(_ name: String) throws(ControlError) -> Bool {
        switch take(name) {
        case nil, "false": return false
        case "true": return true
        case let other?:
            throw ControlError(.badRequest, "\"\(name)\" is \"true\" or \"false\", not \"\(other)\".")
        }
    }

    mutating func uuid(_ name: String) throws(ControlError) -> UUID? {
        guard let text = take(name) else { return nil }
        guard let id = UUID(uuidString: text) else {
            throw ControlError(.badRequest, "\"\(name)\" is a hook's id, not \"\(text)\".")
        }
        return id
    }

    func finish() throws(ControlError) {
        guard let name = values.keys.min() else { return }
        throw ControlError(.badRequest, "\"\(name)\" is not known here.")
    }
}

extension HookAddition {
    fileprivate init(_ query: inout QueryReader) throws(ControlError) {
        self.init(
            before: try query.uuid("before"), persist: try query.flag("persist"), file: query.take("file"))
    }
}

extension FeedRequest {
    fileprivate var query: [(String, String?)] {
        [("store", store), ("consumer", consumer), ("context", context)]
    }

    fileprivate init(_ query: inout QueryReader) throws(ControlError) {
        self.init(
            store: query.take("store"), consumer: try query.need("consumer"), context: try query.need("context")
        )
    }
}

extension HookSelection {
    fileprivate var query: [(String, String?)] {
        let which: [(String, String?)] =
            switch which {
            case .id(let id): [("id", id.uuidString)]
            case .pair(let entity, let operation): [("entity", entity), ("operation", operation)]
            case .all: [("all", "true")]
            }
        return which + [("kind", kind)]
    }

    fileprivate init(_ query: inout QueryReader) throws(ControlError) {
        let id = try query.uuid("id")
        let entity = query.take("entity")
        let operation = query.take("operation")
        let all = try query.flag("all")
        switch (id, entity, operation, all) {
        case (let id?, nil, nil, false): which = .id(id)
        case (nil, let entity?, let operation?, false): which = .pair(entity: entity, operation: operation)
        case (nil, nil, nil, true): which = .all
        default:
            throw ControlError(
                .badRequest, "Say which hooks: by \"id\", by \"entity\" and \"operation\", or \"all\".")
        }
        kind = query.take("kind")
        if let kind, kind != "observer", kind != "merge" {
            throw ControlError(.badRequest, "\"kind\" is \"observer\" or \"merge\", not \"\(kind)\".")
        }
        if let operation, !["insert", "update", "delete"].contains(operation) {
            throw ControlError(
                .badRequest, "\"operation\" is \"insert\", \"update\" or \"delete\", not \"\(operation)\".")
        }
    }
}

extension DeadLetterSelection {
    fileprivate var query: [(String, String?)] {
        [("id", id), ("all", id == nil ? "true" : nil), ("store", store)]
    }

    fileprivate init(_ query: inout QueryReader) throws(ControlError) {
        id = query.take("id")
        let all = try query.flag("all")
        store = query.take("store")
        guard (id != nil) != all, id == nil || store == nil else {
            throw ControlError(
                .badRequest, "Say which dead letters: by \"id\", or \"all\", of a \"store\" or not.")
        }
    }
}
