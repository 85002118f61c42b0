import ArgumentParser
import PersistentHistory

struct Exec: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run SQL as an author.",
        discussion: """
            All the SQL is one transaction, unless it contains BEGIN. A single statement runs in \
            autocommit mode, and so do PRAGMA and ATTACH before all other statements. Rows are printed \
            as sqlite3 prints them. The last line is the token of the transaction, if anything was \
            recorded.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Option(help: "The author of the transaction.")
    var author: String

    @Option(help: "The name of the author's context.")
    var context: String?

    @Argument(help: "The SQL; - reads standard input.")
    var sql: [String]

    func run() throws {
        var output = StandardOutput()
        let token = try AuthoredSQL.run(script(), on: store, author: author, context: context) { row in
            for (index, value) in row.enumerated() {
                if index > 0 { try output.write("|".utf8) }
                try output.write(value ?? [])
            }
            try output.write("\n".utf8)
        }
        if let token { try output.writeLine("\(token)") }
        try output.flush()
    }

    /// The script. Each argument ends a statement, with or without a semicolon.
    private func script() throws -> String {
        try sql.map { $0 == "-" ? String(decoding: try InputArgument.standardInput(), as: UTF8.self) : $0 }
            .joined(separator: "\n;")
    }
}
