import Foundation
import TestSupport

extension StoreSetup {
    /// One consumer with feeds, each given by its name or by its members.
    static func feeding(_ feeds: String..., of author: String = "MainApp", and others: String...) -> String {
        let contexts = feeds.map { feed in
            let members = feed.contains("\"") ? feed : #""name": "\#(feed)""#
            return #"{"kind": "feed", \#(members)}"#
        }
        let authors =
            [#"{"name": "\#(author)", "contexts": [\#(contexts.joined(separator: ", "))]}"#]
            + others.map { #"{"name": "\#($0)"}"# }
        return "[\(authors.joined(separator: ", "))]"
    }
}

/// A program that is connected to a feed: it prints what it is sent.
struct Listener: Sendable {
    let program: RunningProgram

    /// The lines so far, each in short: `begins 3`, `expired restored 3 > 9`, `4 Widget +p1 ~p2 -p3`.
    var lines: [String] {
        get throws { try program.output.wholeLines.map { Self.summary(try Tree($0)) } }
    }

    static func summary(_ line: Tree) -> String {
        func number(_ token: Tree) -> String { token.text?.split(separator: ":").last.map(String.init) ?? "-" }
        if let after = line["begins"]["after"].text {
            return "begins \(after.split(separator: ":").last ?? "")"
        }
        let expired = line["expired"]
        if let reason = expired["reason"].text {
            return "expired \(reason) \(number(expired["lost"])) > \(number(expired["after"]))"
        }
        var words = [number(line["token"]), line["author"].text ?? "nobody"]
        for (sign, name) in [("+", "inserted"), ("~", "updated"), ("-", "deleted")] {
            words += line[name + "ObjectIDs"].list.compactMap { object in
                object["objectIDURL"].text?.split(separator: "/").last.map { "\(sign)\($0)" }
            }
        }
        if let index = line["part"]["index"].int {
            words = words.prefix(2) + ["part \(index)"] + (line["part"]["last"].bool == true ? ["last"] : [])
        }
        return words.joined(separator: " ")
    }

    /// Waits for so many lines.
    @discardableResult
    func lines(_ count: Int, of daemon: DaemonUnderTest) async throws -> [String] {
        try await eventually(
            "\(count) lines of the feed",
            state: {
                "There were:\n\(program.output)\(program.errors)and the log was:\n\(daemon.log.joined(separator: "\n"))"
            }
        ) {
            RunningProgram.hasLines(count, program.outputFile) ? try lines : nil
        }
    }

    /// Ends it without a warning.
    func kill() async throws {
        program.signal(SIGKILL)
        _ = try await program.end()
    }
}

extension Workbench {
    func listen(to context: String = "live", of consumer: String = "MainApp", _ more: String...) throws
        -> Listener
    {
        Listener(program: try startCtl(["feed", consumer, context] + more))
    }

    /// Acknowledges all up to a transaction, by its number.
    func acknowledge(_ number: Int, of context: String = "live", _ consumer: String = "MainApp") async throws {
        try await steer("feed", consumer, context, "--through", "\(try await id()):\(number)")
    }

    /// Waits until the only consumer, and with it what its feeds may have, is at a transaction.
    func waitUntilServed(_ number: Int, consumer: String = "MainApp") async throws {
        try await steer(
            "wait", "--consumer", consumer, "--token", "\(try await id()):\(number)", "--timeout", "60s")
    }

    /// Inserts people, each in a transaction of its own.
    func insert(_ ids: ClosedRange<Int>, as author: String? = "Widget") async throws {
        let program = try await startPython(
            """
            c = connect(store, \(author.map { "'\($0)'" } ?? "None"))
            for i in range(\(ids.lowerBound), \(ids.upperBound) + 1): c.execute('INSERT INTO person (id) VALUES (?)', (i,))
            """)
        try await program.succeed()
    }
}
