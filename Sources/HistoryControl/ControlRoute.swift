import FoundationEssentials

/// A command in HTTP: `POST /v1/pause?store=contacts`.
struct ControlRoute: Sendable {
    typealias Query = [(name: String, value: String?)]

    let method: ControlCommand.Method
    let path: String
    /// Parses a query into the command.
    let read: @Sendable (inout QueryReader) throws -> ControlCommand

    private init(
        _ method: ControlCommand.Method, _ path: String,
        _ read: @escaping @Sendable (inout QueryReader) throws -> ControlCommand
    ) {
        self.method = method
        self.path = "/v1/" + path
        self.read = read
    }

    static let all: [ControlRoute] = [
        .init(.get, "status") { _ in .status },
        .init(.get, "health") { _ in .health },
        .init(.get, "metrics") { _ in .metrics },
        .init(.get, "doctor") { .doctor(store: $0.take("store")) },
        .init(.get, "consumers") { .consumers(store: $0.take("store")) },
        .init(.post, "consumers/move") {
            .moveConsumer(
                try $0.need("consumer"), to: try $0.need("to"), store: $0.take("store"),
                skip: try $0.flag("skip"), dryRun: try $0.flag("dryRun"))
        },
        .init(.get, "hooks") { _ in .hooks },
        .init(.post, "hooks") {
            .addHooks(before: try $0.uuid("before"), persist: try $0.flag("persist"), file: $0.take("file"))
        },
        .init(.delete, "hooks") { .removeHooks(try HookSelection(&$0)) },
        .init(.get, "plugins") { _ in .plugins },
        .init(.post, "plugins/restart") { .restartPlugin(try $0.need("plugin")) },
        .init(.post, "plugins/test") {
            .testPlugin(
                try $0.need("plugin"), hook: $0.take("hook"), token: $0.take("token"),
                dryRun: try $0.flag("dryRun"))
        },
        .init(.post, "reload") { _ in .reload },
        .init(.post, "pause") {
            .pause(store: $0.take("store"), consumer: $0.take("consumer"), keep: try $0.flag("keep"))
        },
        .init(.post, "resume") { .resume(store: $0.take("store"), consumer: $0.take("consumer")) },
        .init(.post, "run") { .run(store: $0.take("store"), timeout: $0.take("timeout")) },
        .init(.get, "wait") {
            .wait(
                consumer: try $0.need("consumer"), token: try $0.need("token"), store: $0.take("store"),
                timeout: $0.take("timeout"))
        },
        .init(.get, "follow") {
            .follow(store: $0.take("store"), consumer: $0.take("consumer"), after: $0.take("after"))
        },
        .init(.get, "feed") { .feed(try FeedRequest(&$0)) },
        .init(.post, "feed/acknowledge") { .acknowledge(try FeedRequest(&$0), token: try $0.need("token")) },
        .init(.post, "clean") {
            .clean(store: $0.take("store"), dryRun: try $0.flag("dryRun"), force: try $0.flag("force"))
        },
        .init(.post, "resync") {
            .resync(context: try $0.need("context"), store: $0.take("store"), consumer: $0.take("consumer"))
        },
        .init(.get, "dead-letters") { .deadLetters(store: $0.take("store")) },
        .init(.post, "dead-letters/retry") { .retryDeadLetters(try DeadLetterSelection(&$0)) },
        .init(.delete, "dead-letters") { .dropDeadLetters(try DeadLetterSelection(&$0)) },
        .init(.get, "log-level") { _ in .logLevel },
        .init(.put, "log-level") { .setLogLevel(try $0.need("level")) },
    ]
}

extension ControlCommand {
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case delete = "DELETE"
    }

    package var method: Method { request.method }

    /// Whether it changes what the daemon does, which only root and the daemon's own user may do. Acknowledging
    /// what a feed has sent is part of reading it.
    package var steers: Bool {
        if case .acknowledge = self { false } else { method != .get }
    }

    /// The request for this command, which its route reads back.
    var request: (method: Method, path: String, query: ControlRoute.Query) {
        let (method, path, query): (Method, String, ControlRoute.Query) =
            switch self {
            case .status: (.get, "status", [])
            case .health: (.get, "health", [])
            case .metrics: (.get, "metrics", [])
            case .doctor(let store): (.get, "doctor", [("store", store)])
            case .consumers(let store): (.get, "consumers", [("store", store)])
            case .moveConsumer(let consumer, let to, let store, let skip, let dryRun):
                (
                    .post, "consumers/move",
                    [
                        ("store", store), ("consumer", consumer), ("to", to), ("skip", skip.query),
                        ("dryRun", dryRun.query),
                    ]
                )
            case .hooks: (.get, "hooks", [])
            case .addHooks(let before, let persist, let file):
                (.post, "hooks", [("before", before?.uuidString), ("persist", persist.query), ("file", file)])
            case .removeHooks(let selection): (.delete, "hooks", selection.query)
            case .plugins: (.get, "plugins", [])
            case .restartPlugin(let name): (.post, "plugins/restart", [("plugin", name)])
            case .testPlugin(let name, let hook, let token, let dryRun):
                (
                    .post, "plugins/test",
                    [("plugin", name), ("hook", hook), ("token", token), ("dryRun", dryRun.query)]
                )
            case .reload: (.post, "reload", [])
            case .pause(let store, let consumer, let keep):
                (.post, "pause", [("store", store), ("consumer", consumer), ("keep", keep.query)])
            case .resume(let store, let consumer):
                (.post, "resume", [("store", store), ("consumer", consumer)])
            case .run(let store, let timeout): (.post, "run", [("store", store), ("timeout", timeout)])
            case .wait(let consumer, let token, let store, let timeout):
                (
                    .get, "wait",
                    [("store", store), ("consumer", consumer), ("token", token), ("timeout", timeout)]
                )
            case .follow(let store, let consumer, let after):
                (.get, "follow", [("store", store), ("consumer", consumer), ("after", after)])
            case .feed(let feed): (.get, "feed", feed.query)
            case .acknowledge(let feed, let token): (.post, "feed/acknowledge", feed.query + [("token", token)])
            case .clean(let store, let dryRun, let force):
                (.post, "clean", [("store", store), ("dryRun", dryRun.query), ("force", force.query)])
            case .resync(let context, let store, let consumer):
                (.post, "resync", [("context", context), ("store", store), ("consumer", consumer)])
            case .deadLetters(let store): (.get, "dead-letters", [("store", store)])
            case .retryDeadLetters(let selection): (.post, "dead-letters/retry", selection.query)
            case .dropDeadLetters(let selection): (.delete, "dead-letters", selection.query)
            case .logLevel: (.get, "log-level", [])
            case .setLogLevel(let level): (.put, "log-level", [("level", level)])
            }
        return (method, "/v1/" + path, query)
    }

    /// The path and the query.
    package var target: String {
        let (_, path, query) = request
        var components = URLComponents()
        components.path = path
        let items = query.compactMap { name, value in value.map { URLQueryItem(name: name, value: $0) } }
        if !items.isEmpty { components.queryItems = items }
        // URLComponents leaves "+" unescaped, and a server reads it as a blank (see below).
        components.percentEncodedQuery = components.percentEncodedQuery?.replacing("+", with: "%2B")
        return components.string ?? components.path
    }

    /// Reads a request's first line.
    ///
    /// - Throws: `ControlError` with what is wrong with it.
    package init(method: String, target: String) throws(ControlError) {
        guard var components = URLComponents(string: target) else {
            throw ControlError(.badRequest, "\"\(target)\" is not a path with a query.")
        }
        let routes = ControlRoute.all.filter { $0.path == components.path }
        guard !routes.isEmpty else {
            throw ControlError(
                .unknownRequest, "There is no request \"\(components.path)\". Start with GET /v1/status.")
        }
        guard let route = routes.first(where: { $0.method.rawValue == method }) else {
            let allowed = routes.map(\.method.rawValue).joined(separator: " and ")
            throw ControlError(.wrongMethod, "\(components.path) accepts \(allowed), not \(method).")
        }
        // Forms, and with them many libraries, send "+" for a blank:
        // https://url.spec.whatwg.org/#urlencoded-parsing
        components.percentEncodedQuery = components.percentEncodedQuery?.replacing("+", with: "%20")
        var query = try QueryReader(components.queryItems ?? [])
        do {
            self = try route.read(&query)
        } catch {
            throw error as? ControlError ?? ControlError(.failed, "\(error)")
        }
        try query.finish()
    }
}

extension Bool {
    /// False is left out.
    fileprivate var query: String? { self ? "true" : nil }
}
