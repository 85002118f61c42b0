import Foundation
import TestSupport
import Testing

/// The man pages are made from the programs' help, the schemas and the pages of the documentation.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ManPageTests {
    private func pages(_ body: ([String: String], TemporaryFolder) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        try await Command(
            Python.path, [Sources.path("config/man/make-man"), BuiltProducts.folder, "1.2.3", folder.path]
        ).succeed()
        var pages: [String: String] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            pages[name] = try String(contentsOfFile: folder.file(name), encoding: .utf8)
        }
        try await body(pages, folder)
    }

    @Test func allIsThereAndRoffTakesIt() async throws {
        try await pages { pages, folder in
            #expect(
                pages.keys.sorted() == [
                    "historyctl.1", "historyd-feed.7", "historyd-nats.8", "historyd-plugins.7", "historyd.8",
                    "historyd.json.5",
                ])
            for (name, words) in [
                ("historyctl.1", ["historyctl dead\\-letters retry", ".TP\n75\n"]),
                ("historyd.8", ["1.2.3", ".TP\n75\n"]),
                ("historyd.json.5", ["unlistedAuthors", "maximumDuration", ".SH EXAMPLE", "BatchProcessor"]),
                ("historyd-plugins.7", ["initialDelay", "HISTORYD_METHOD"]),
                ("historyd-feed.7", ["expired"]), ("historyd-nats.8", ["nkeySeed", "78 configuration"]),
            ] {
                for word in words { #expect(pages[name]?.contains(word) == true, "\(name): \(word)") }
            }
            guard FileManager.default.isExecutableFile(atPath: "/usr/bin/groff") else { return }
            for name in pages.keys {
                let outcome = try await Command(
                    "/usr/bin/groff", ["-man", "-Tutf8", "-Kutf8", "-ww", folder.file(name)]
                ).run()
                #expect(outcome.status == .exited(0) && outcome.errors.isEmpty, "\(name): \(outcome.errors)")
            }
        }
    }

    /// Each option and argument that a program's `--help` prints is in the part of its page that is about the command.
    @Test(arguments: [("historyd", 8), ("historyctl", 1), ("historyd-nats", 8)])
    func theHelpIsInThePage(_ program: String, _ section: Int) async throws {
        try await pages { pages, _ in
            let page = try #require(pages["\(program).\(section)"])
            let general = try #require(page.components(separatedBy: "\n.SH OPTIONS\n").last)
            var (commands, words) = ([[String]()], 0)
            while let command = commands.popLast() {
                let help = try await Help(program, command)
                commands += help.subcommands.map { command + [$0] }
                let name = ([program] + command).joined(separator: " ").replacing("-", with: "\\-")
                let about =
                    command.isEmpty || !help.subcommands.isEmpty
                    ? general : page.components(separatedBy: "\n.SS \\fB\(name)\\fR").dropFirst().first
                let part = try #require(about, "\(name) is not in the page")
                let own = part.components(separatedBy: "\n.SS ").first ?? ""
                for option in help.options {
                    words += 1
                    let entry = "\\fB\(option.replacing("-", with: "\\-"))\\fR"
                    let isGeneral = ["-h", "--help", "--version"].contains(option)
                    #expect((isGeneral ? general : own).contains(entry), "\(name) \(option)")
                }
                for argument in help.arguments {
                    words += 1
                    #expect(
                        own.contains("\\fI\(argument.replacing("-", with: "\\-"))\\fR"), "\(name) \(argument)")
                }
            }
            #expect(words > 5)
        }
    }

    @Test func thePageAboutControlHasEveryCommand() async throws {
        let page = try Sources.text("Sources/PersistentHistory/PersistentHistory.docc/Control.md")
        let commands = try await Help("historyctl", []).subcommands
        #expect(commands.count > 20)
        for command in commands {
            #expect(page.firstMatch(of: try Regex("`\(command)[` ]")) != nil, "\(command)")
        }
    }

    /// What `--help` prints, as it is read.
    private struct Help {
        let subcommands: [String]
        let options: [String]
        let arguments: [String]

        init(_ program: String, _ command: [String]) async throws {
            let text = try await Command(BuiltProducts.path(program), command + ["--help"]).succeed()
            /// The entries under a heading: what stands before their descriptions.
            func entries(_ heading: String) -> [String] {
                let sections: [[Substring]] = text.components(separatedBy: "\n\n").map {
                    $0.split(separator: "\n")
                }
                let lines: [Substring] = sections.filter { $0.first?.hasSuffix(heading) == true }.flatMap(
                    \.self)
                let entries: [Substring] = lines.filter { $0.hasPrefix("  ") && !$0.hasPrefix("   ") }
                return entries.map { (line: Substring) in line.dropFirst(2).components(separatedBy: "  ")[0] }
            }
            subcommands = entries("SUBCOMMANDS:").map { String($0.prefix { $0 != " " }) }
            options = entries("OPTIONS:").flatMap { entry in
                entry.matches(of: #/(?:^|[ ,\/])(--?[A-Za-z][\w-]*)/#).map { String($0.output.1) }
            }
            arguments = entries("ARGUMENTS:").compactMap { entry in
                entry.firstMatch(of: #/^<([^>]+)>/#).map { String($0.output.1) }
            }
        }
    }
}
