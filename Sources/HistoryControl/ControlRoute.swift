import FoundationEssentials

/// How a command looks in HTTP: `POST /v1/pause?store=contacts`. All there is to know of that is in one table.
struct ControlRoute: Sendable {
    typealias Query = [(name: String, value: String?)]

    let method: ControlCommand.Method
    let path: String
    /// See `ControlCommand.steers`.
    let steers: Bool
    /// Makes the command of a query.
    let read: @Sendable (inout QueryReader) throws -> ControlCommand
    /// The query of a command; nil for those of other routes.
    let write: @Sendable (ControlCommand) -> Query?

    private init(
        _ method: ControlCommand.Method, _ path: String, steers: Bool? = nil,
        _ read: @escaping @Sendable (inout QueryReader) throws -> ControlCommand,
        _ write: @escaping @Sendable (ControlCommand) -> Query?
    ) {
        self.method = method
        self.path = "/v1/" + path
        self.steers = steers ?? (method != .get)
        self.read = read
        self.write = write
    }

    /// Of a command without a query.
    private init(_ method: ControlCommand.Method, _ path: String, _ command: ControlCommand) {
        self.init(method, path, { _ in command }, { $0 == command ? [] : nil })
    }

    static let all: [ControlRoute] = [
        .init(.get, "status", .status),
        .init(.get, "health", .health),
        .init(.get, "metrics", .metrics),
        .init(.get, "doctor", { .doctor(store: $0.take("store")) }) {
            if case .doctor(let store) = $0 { [("store", store)] } else { nil }
        },
        .init(.get, "consumers", { .consumers(store: $0.take("store")) }) {
            if case .consumers(let store) = $0 { [("store", store)] } else { nil }
        },
        .init(.get, "hooks", .hooks),
        .init(.post, "hooks", { .addHooks(try HookAddition(&$0)) }) {
            if case .addHooks(let addition) = $0 { addition.query } else { nil }
        },
        .init(.delete, "hooks", { .removeHooks(try HookSelection(&$0)) }) {
            if case .removeHooks(let selection) = $0 { selection.query } else { nil }
        },
        .init(.get, "plugins", .plugins),
        .init(.post, "plugins/restart", { .restartPlugin(try $0.need("plugin")) }) {
            if case .restartPlugin(let name) = $0 { [("plugin", name)] } else { nil }
        },
        .init(.post, "plugins/test", { .testPlugin(try PluginTestRequest(&$0)) }) {
            if case .testPlugin(let request) = $0 { request.query } else { nil }
        },
        .init(.post, "reload", .reload),
        .init(.post, "pause", { .pause(store: $0.take("store")) }) {
            if case .pause(let store) = $0 { [("store", store)] } else { nil }
        },
        .init(.post, "resume", { .resume(store: $0.take("store")) }) {
            if case .resume(let store) = $0 { [("store", store)] } else { nil }
        },
        .init(.post, "run", { .run(store: $0.take("store"), timeout: $0.take("timeout")) }) {
            if case .run(let store, let timeout) = $0 { [("store", store), ("timeout", timeout)] } else { nil }
        },
        .init(.get, "wait", { .wait(try WaitRequest(&$0)) }) {
            if case .wait(let request) = $0 { request.query } else { nil }
        },
        .init(.get, "follow", { .follow(FollowRequest(&$0)) }) {
            if case .follow(let request) = $0 { request.query } else { nil }
        },
        .init(.get, "feed", { .feed(try FeedRequest(&$0)) }) {
            if case .feed(let request) = $0 { request.query } else { nil }
        },
        // Acknowledging what a feed has sent is part of reading it.
        .init(
            .post, "feed/acknowledge", steers: false,
            { .acknowledge(try FeedRequest(&$0), token: try $0.need("token")) }
        ) {
            if case .acknowledge(let request, let token) = $0 {
                request.query + [("token", token)]
            } else {
                nil
            }
        },
        .init(.post, "clean", { .clean(try CleanRequest(&$0)) }) {
            if case .clean(let request) = $0 { request.query } else { nil }
        },
        .init(.post, "resync", { .resync(try ResyncRequest(&$0)) }) {
            if case .resync(let request) = $0 { request.query } else { nil }
        },
        .init(.get, "dead-letters", { .deadLetters(store: $0.take("store")) }) {
            if case .deadLetters(let store) = $0 { [("store", store)] } else { nil }
        },
        .init(.post, "dead-letters/retry", { .retryDeadLetters(try DeadLetterSelection(&$0)) }) {
            if case .retryDeadLetters(let selection) = $0 { selection.query } else { nil }
        },
        .init(.delete, "dead-letters", { .dropDeadLetters(try DeadLetterSelection(&$0)) }) {
            if case .dropDeadLetters(let selection) = $0 { selection.query } else { nil }
        },
        .init(.get, "log-level", .logLevel),
        .init(.put, "log-level", { .setLogLevel(try $0.need("level")) }) {
            if case .setLogLevel(let level) = $0 { [("level", level)] } else { nil }
        },
    ]
}

extension ControlCommand {
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case delete = "DELETE"
    }

    private var route: (route: ControlRoute, query: ControlRoute.Query) {
        for route in ControlRoute.all {
            if let query = route.write(self) { return (route, query) }
        }
        preconditionFailure("Every command has a route.")
    }

    package var method: Method { route.route.method }

    /// Whether it changes what the daemon does: that is for root and the daemon's own user.
    package var steers: Bool { route.route.steers }

    /// Path and query.
    package var target: String {
        let (route, query) = route
        var components = URLComponents()
        components.path = route.path
        let items = query.compactMap { name, value in value.map { URLQueryItem(name: name, value: $0) }
        }
        if !items.isEmpty { components.queryItems = items }
        // Left as it is by URLComponents, and read as a blank (below).
        components.percentEncodedQuery = components.percentEncodedQuery?.replacing("+", with: "%2B")
        return components.string ?? components.path
    }

    /// Reads a request's first line.
    ///
    /// - Throws: `ControlError` that says what is wrong with it.
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
        // What forms send, and with them many libraries: https://url.spec.whatwg.org/#urlencoded-parsing
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
