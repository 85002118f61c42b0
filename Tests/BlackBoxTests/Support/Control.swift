import Foundation
import TestSupport

/// What a daemon answers on its control socket, and what historyctl makes of it.
extension Workbench {
    var controlSocket: String { path("state/control.sock") }

    struct Outcome: Sendable {
        let status: RunningProgram.Ending
        let output: String
        let errors: String

        /// The output as JSON.
        func json() throws -> Tree { try Tree(output) }
    }

    /// Runs historyctl to its end.
    func ctl(_ arguments: String..., under wrapper: [String] = []) async throws -> Outcome {
        let program = try startCtl(arguments, under: wrapper)
        return Outcome(status: try await program.end(), output: program.output, errors: program.errors)
    }

    func startCtl(
        _ arguments: [String], under wrapper: [String] = [], environment: [String: String] = [:]
    ) throws -> RunningProgram {
        try start(
            wrapper + [Products.historyctl] + arguments, "ctl-\(UUID().uuidString)",
            environment: environment.merging(["STATE_DIRECTORY": path("state")]) { $1 })
    }

    /// Runs historyctl, which must succeed, and gives its output.
    @discardableResult
    func steer(_ arguments: String...) async throws -> String {
        try await startCtl(arguments).succeed()
    }

    /// What historyctl gives programs.
    func report(_ arguments: String...) async throws -> Tree {
        try Tree(try await startCtl(arguments + ["--format", "json"]).succeed())
    }

    /// One HTTP request, made without any of our code.
    func http(_ method: String, _ target: String, body: String = "") async throws -> (status: Int, body: Tree) {
        let name = "http-\(UUID().uuidString)"
        try folder.write(name + ".body", body)
        let code = """
            import http.client, socket, sys
            connection = http.client.HTTPConnection('localhost', timeout=100)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(sys.argv[1])
            try: connection.request(sys.argv[2], sys.argv[3], open(sys.argv[4], 'rb').read())
            except BrokenPipeError: pass  # refused before it was read
            response = connection.getresponse()
            print(response.status)
            print(response.read().decode())
            """
        let output = try await start(
            [Products.python, "-c", code, controlSocket, method, target, path(name + ".body")], name
        ).succeed()
        let lines = output.split(separator: "\n", maxSplits: 1)
        return (Int(lines[0]) ?? 0, try Tree(String(lines.last ?? "")))
    }

    /// The token of a transaction that is written now.
    func commit(_ sql: String, as author: String = "Writer") async throws -> String {
        let output = try await start(
            [Products.historyctl, "exec", store, "--author", author, sql], "exec-\(UUID().uuidString)"
        ).succeed()
        return output.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

/// JSON to look around in: `report["stores"][0]["name"].text`.
struct Tree: Sendable, CustomStringConvertible {
    private enum Value: Sendable {
        case object([String: Tree])
        case array([Tree])
        case text(String)
        case number(Double)
        case bool(Bool)
        case none
    }

    private let value: Value

    init(_ text: String) throws {
        self.init(try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed))
    }

    private init(_ any: Any?) {
        switch any {
        case let object as [String: Any]: value = .object(object.mapValues { Tree($0) })
        case let array as [Any]: value = .array(array.map { Tree($0) })
        case let text as String: value = .text(text)
        case let number as NSNumber:
            value = isBool(number) ? .bool(number.boolValue) : .number(number.doubleValue)
        default: value = .none
        }
    }

    subscript(_ name: String) -> Tree {
        if case .object(let object) = value { object[name] ?? Tree(nil) } else { Tree(nil) }
    }

    subscript(_ place: Int) -> Tree {
        if case .array(let array) = value, array.indices.contains(place) { array[place] } else { Tree(nil) }
    }

    var list: [Tree] { if case .array(let array) = value { array } else { [] } }
    var text: String? { if case .text(let text) = value { text } else { nil } }
    var int: Int? { if case .number(let number) = value { Int(number) } else { nil } }
    var bool: Bool? { if case .bool(let bool) = value { bool } else { nil } }
    var names: [String] { if case .object(let object) = value { object.keys.sorted() } else { [] } }
    var texts: [String] { list.compactMap(\.text) }

    var description: String { "\(value)" }
}

/// Whether a number was `true` or `false`.
private func isBool(_ number: NSNumber) -> Bool { String(cString: number.objCType) == "c" }
