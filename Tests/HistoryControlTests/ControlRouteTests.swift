import FoundationEssentials
import Testing

@testable import HistoryControl

extension ControlRoute {
    fileprivate func isOf(_ command: ControlCommand) -> Bool {
        command.method == method && command.request.path == path
    }
}

/// What a client asks is what a server understands.
@Suite struct ControlRouteTests {
    static let id = UUID(uuidString: "023EE44B-AE3A-525E-B760-49A90ACA412B")

    /// Names as people give them, and as they do to break things.
    static let names: [String?] = [
        nil, "contacts", "a b", "ä/ö?x=1&y=2#z", "100%", "+", "\"quoted\"", "%41", "new\nline", "👩🏽‍🚀", "=", "&",
        ";",
    ]

    static var commands: [ControlCommand] {
        var all: [ControlCommand] = [.status, .health, .metrics, .hooks, .plugins, .reload, .logLevel]
        for name in names {
            all += [
                .doctor(store: name), .consumers(store: name), .pause(store: name), .resume(store: name),
                .pause(store: name, consumer: name, keep: true), .resume(store: name, consumer: name),
                .run(store: name),
                .deadLetters(store: name),
                .follow(store: name, consumer: name, after: name),
                .clean(store: name, dryRun: true), .clean(store: name, force: true),
                .retryDeadLetters(DeadLetterSelection(store: name)),
                .addHooks(before: id, persist: true, file: name),
                .addHooks(file: name),
            ]
            let given = name ?? "x"
            all += [
                .moveConsumer(given, to: given, store: name, skip: true),
                .moveConsumer(given, to: "newest", dryRun: name != nil),
                .wait(consumer: given, token: given, store: name, timeout: name),
                .resync(context: given, store: name, consumer: name),
                .feed(FeedRequest(store: name, consumer: given, context: given)),
                .acknowledge(FeedRequest(store: name, consumer: given, context: given), token: given),
                .dropDeadLetters(DeadLetterSelection(id: given)), .setLogLevel(given),
                .restartPlugin(given),
                .testPlugin(given, hook: name, token: name, dryRun: name != nil),
                .removeHooks(HookSelection(.pair(entity: given, operation: "insert"), kind: "observer")),
            ]
        }
        all += [.removeHooks(HookSelection(.all, kind: "merge"))]
        if let id { all.append(.removeHooks(HookSelection(.id(id)))) }
        return all
    }

    /// The parameters that commands of a route have.
    static func parameters(of route: ControlRoute) -> Set<String> {
        Set(commands.filter(route.isOf).flatMap { $0.request.query.map(\.name) })
    }

    @Test(arguments: commands) func thereAndBack(_ command: ControlCommand) throws {
        let read = try ControlCommand(method: command.method.rawValue, target: command.target)
        #expect(read == command)
        // One line, nothing that ends a header.
        #expect(!command.target.contains { $0.isWhitespace || $0.isNewline })
    }

    /// As a form writes it, and as `URLSearchParams` of JavaScript and `urlencode` of Python do.
    @Test(arguments: ["Main+App", "Main%20App"]) func aBlankIsReadEitherWay(_ name: String) throws {
        let read = try ControlCommand(method: "GET", target: "/v1/feed?consumer=\(name)&context=1%2B1")
        #expect(read == .feed(FeedRequest(consumer: "Main App", context: "1+1")))
    }

    @Test("Each command has one route, and each route a command") func table() {
        var reached: Set<Int> = []
        for command in Self.commands {
            let routes = ControlRoute.all.indices.filter { ControlRoute.all[$0].isOf(command) }
            #expect(routes.count == 1, "\(command)")
            reached.formUnion(routes)
        }
        #expect(reached.count == ControlRoute.all.count)
        let places = ControlRoute.all.map { "\($0.method.rawValue) \($0.path)" }
        #expect(Set(places).count == places.count)
    }

    /// The name of a store that a script took from a variable that is not set does not mean all stores.
    @Test(arguments: [
        "/v1/pause?store=", "/v1/clean?dryRun", "/v1/clean?store=&dryRun=true", "/v1/run?timeout=",
        "/v1/hooks?before=",
    ]) func anEmptyValueIsRefused(_ target: String) {
        let error = #expect(throws: ControlError.self) { try ControlCommand(method: "POST", target: target) }
        #expect(error?.code == .badRequest && error?.message.hasSuffix("\" is empty.") == true)
    }

    @Test func onlyReadingIsForEverybody() {
        for command in Self.commands {
            switch command {
            case .status, .health, .metrics, .doctor, .consumers, .hooks, .plugins, .wait, .follow, .feed,
                .acknowledge,
                .deadLetters, .logLevel:
                #expect(!command.steers, "\(command)")
            default: #expect(command.steers, "\(command)")
            }
        }
    }

    @Test(arguments: ControlError.Code.allCases) func everyRefusalHasItsStatus(_ code: ControlError.Code) throws
    {
        let error = ControlError(code, "What is wrong.", problems: ["a", "b"])
        #expect((400..<600).contains(error.httpStatus))
        let bytes = try ControlJSON.bytes(ControlFailure(error))
        #expect(bytes.last == UInt8(ascii: "\n") && bytes.filter { $0 == UInt8(ascii: "\n") }.count == 1)
        // historyctl tells an error in a stream by this beginning.
        #expect(bytes.starts(with: #"{"error":"#.utf8))
        #expect(try ControlJSON.read(ControlFailure.self, from: bytes).error == error)
    }
}

@Suite struct ControlSocketPathTests {
    @Test func theServiceManagersFolderComesFirst() {
        let environment = [
            "RUNTIME_DIRECTORY": "/run/historyd:/run/other", "STATE_DIRECTORY": "/s", "HOME": "/h",
        ]
        #expect(ControlSocket.server(environment: environment) == "/run/historyd/control.sock")
        #expect(ControlSocket.client(environment: environment) { _ in false } == "/run/historyd/control.sock")
    }

    @Test func withoutOneItIsInTheStateFolder() {
        #expect(ControlSocket.server(environment: ["STATE_DIRECTORY": "/s"]) == "/s/control.sock")
        #expect(ControlSocket.server(environment: ["XDG_STATE_HOME": "/x"]) == "/x/historyd/control.sock")
        #expect(
            ControlSocket.server(environment: ["HOME": "/h"]) == "/h/.local/state/historyd/control.sock")
    }

    @Test func aClientPrefersTheSystemsDaemonToTheUsers() {
        let own = "/h/.local/state/historyd/control.sock"
        func client(_ there: String...) -> String {
            ControlSocket.client(environment: ["HOME": "/h"]) { there.contains($0) }
        }
        #expect(client() == ControlSocket.system)
        #expect(client(own) == own)
        #expect(client(own, ControlSocket.system) == own)
    }
}

/// The description of the protocol is that of the table of routes.
@Suite struct OpenAPITests {
    private struct Description: Decodable {
        struct Operation: Decodable {
            struct Parameter: Decodable {
                let name: String
                let required: Bool
            }
            let changes: Bool
            let parameters: [Parameter]?

            enum CodingKeys: String, CodingKey {
                case parameters
                case changes = "x-changes-something"
            }
        }
        let openapi: String
        let paths: [String: [String: Operation]]
    }

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let bytes = (try? Data(contentsOf: root.appending(path: "config/openapi.json"))) ?? Data()

    private func description() throws -> Description {
        try JSONDecoder().decode(Description.self, from: Self.bytes)
    }

    @Test func itHasEveryRouteWithItsParametersAndNoOther() throws {
        let description = try description()
        #expect(description.openapi.hasPrefix("3.1"))
        var described = Set(
            description.paths.flatMap { path, operations in operations.keys.map { "\($0.uppercased()) \(path)" }
            })
        for route in ControlRoute.all {
            let name = "\(route.method.rawValue) \(route.path)"
            #expect(described.remove(name) != nil, "\(name)")
            let operation = try #require(description.paths[route.path]?[route.method.rawValue.lowercased()])
            #expect(
                ControlRouteTests.commands.allSatisfy { !route.isOf($0) || $0.steers == operation.changes },
                "\(name)")
            // What some command of the route has.
            let known = ControlRouteTests.parameters(of: route)
            let parameters = operation.parameters ?? []
            #expect(Set(parameters.map(\.name)) == known, "\(name)")
            // What the route cannot do without.
            for parameter in parameters where parameter.required {
                var query = try QueryReader(
                    parameters.filter { $0.name != parameter.name && $0.required }.map {
                        URLQueryItem(name: $0.name, value: "x")
                    })
                #expect(throws: ControlError.self, "\(name) \(parameter.name)") { try route.read(&query) }
            }
        }
        #expect(described.isEmpty, "\(described)")
    }

    /// The page about control has a row for each route, or for some together, with the parameters.
    @Test func thePageHasEveryRouteWithItsParametersAndNoOther() throws {
        let page = try String(
            contentsOf: Self.root.appending(
                path: "Sources/PersistentHistory/PersistentHistory.docc/Control.md"),
            encoding: .utf8)
        var routes = Dictionary(
            uniqueKeysWithValues: ControlRoute.all.map { route in
                ("\(route.method.rawValue) \(route.path)", ControlRouteTests.parameters(of: route))
            })
        for row in page.split(separator: "\n") {
            let cell = row.split(separator: " | ").first ?? row
            let described = cell.matches(of: #/`([A-Z]+ \/v1\/[a-z\/-]+)/#).map { String($0.output.1) }
            guard row.hasPrefix("| `"), !described.isEmpty else { continue }
            var known: Set<String> = []
            for route in described {
                let names = routes.removeValue(forKey: route)
                known.formUnion(try #require(names, "\(route)"))
            }
            #expect(Set(cell.matches(of: #/(\w+)=/#).map { String($0.output.1) }) == known, "\(cell)")
        }
        #expect(routes.isEmpty, "\(routes.keys)")
    }

    @Test func itHasEveryRefusal() {
        let text = String(decoding: Self.bytes, as: UTF8.self)
        for code in ControlError.Code.allCases { #expect(text.contains("\"\(code.rawValue)\""), "\(code)") }
    }
}
