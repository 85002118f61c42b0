/// Schema, connections and SQL of one run: a pure value that a seed makes and the shrinker cuts.
struct Case {
    /// What is set before the first table is made.
    struct Settings {
        var isWAL = false
        var isUTF16 = false
        var recursiveTriggers = false
        var foreignKeys = false
        var trustsSchema = true
        var autoVacuum = false
        /// Whether writers set limits of their own.
        var hasLimits = false
        /// Whether the writer that is not declared does not even have the extension before it loads it.
        var loadsLate = false
        /// Every how many columns one is preserved; 0 for none.
        var preservesEvery = 0
    }

    /// The connections of a run, by number.
    enum Writer: Int, CaseIterable {
        /// Declared from the start.
        case first, second
        /// Never declared, unless a step does.
        case plain
        /// Reaches the store as an attached database of another one.
        case attaching
    }

    enum Step: Hashable {
        case sql(Writer, SQL)
        case declare(Writer, author: String?, context: String?)
        /// A writer that has no extension yet loads it, also within a transaction.
        case load(Writer)
        /// A trigger of one connection alone, which runs before all of the schema.
        case temporary(Writer, TemporaryTrigger)
        /// Done while no transaction is open.
        case alter(Alteration)
        /// Tracking is brought up to date, as the daemon does it.
        case refresh
    }

    struct TemporaryTrigger: Hashable {
        let sql: SQL
        let table: String
        /// Whether it keeps a row and skips the triggers that record it.
        let skips: Bool
        /// Whether it does so where what it writes meets a conflict, and the statement says OR FAIL.
        let mayFail: Bool
    }

    let seed: UInt64
    var settings: Settings
    /// Runs before tracking begins.
    var schema: [SQL]
    /// Runs when the store is tracked; tracking is then brought up to date, as the daemon does it.
    var later: [SQL]
    var steps: [Step]

    var isAltered: Bool {
        steps.contains { if case .alter = $0 { true } else { false } }
    }

    /// Whether the application has triggers at any time.
    var hasTriggers: Bool {
        (schema + later).contains { $0.head.hasPrefix("CREATE TRIGGER") }
            || steps.contains {
                switch $0 {
                case .temporary, .alter(.createTrigger): true
                default: false
                }
            }
    }

    /// The script that a person can read, and follow with the shell.
    var script: String {
        var lines: [String] = []
        if settings.isUTF16 { lines.append("PRAGMA encoding = 'UTF-16le';") }
        if settings.autoVacuum { lines.append("PRAGMA auto_vacuum = FULL;") }
        if settings.isWAL { lines.append("PRAGMA journal_mode = WAL;") }
        lines += schema.map { $0.text + ";" }
        let preserved =
            settings.preservesEvery > 0 ? ", preserving every column \(settings.preservesEvery)" : ""
        lines.append("-- track every table\(preserved)")
        if !later.isEmpty {
            lines += later.map { $0.text + ";" }
            lines.append("-- bring tracking up to date")
        }
        if settings.recursiveTriggers { lines.append("PRAGMA recursive_triggers = ON; -- on each connection") }
        if settings.foreignKeys { lines.append("PRAGMA foreign_keys = ON; -- on each connection") }
        if settings.hasLimits {
            lines.append(".limit compound_select 3 -- on each connection; expr_depth 100, function_arg 8")
        }
        if settings.loadsLate { lines.append("-- plain has not loaded the extension") }
        if !settings.trustsSchema { lines.append("PRAGMA trusted_schema = OFF; -- on each connection") }
        for step in steps {
            switch step {
            case .sql(let writer, let sql): lines.append("/* \(writer) */ \(sql.text);")
            case .declare(let writer, let author, let context):
                lines.append("/* \(writer) */ SELECT history_author(\(literal(author)), \(literal(context)));")
            case .load(let writer): lines.append("/* \(writer) */ .load libhistory")
            case .temporary(let writer, let trigger): lines.append("/* \(writer) */ \(trigger.sql.text);")
            case .alter(let alteration):
                if let table = alteration.tableInTheWay {
                    lines.append("-- drop the triggers of \(SQL.quoted(table)) that are not the application's")
                }
                lines += alteration.statements.map { $0 + ";" }
                if alteration.endsRecording { lines.append("-- bring tracking up to date") }
            case .refresh: lines.append("-- bring tracking up to date")
            }
        }
        return lines.joined(separator: "\n")
    }

    private func literal(_ text: String?) -> String { text.map { "'\($0)'" } ?? "NULL" }
}
