internal import CPlatform
internal import GRDBSQLite
internal import Glibc

/// Limits what expressions may do, and for how long.
final class ConditionGuardian: Sendable {
    enum Mode: Sendable {
        /// Records which columns an expression reads.
        case reads
        /// Lets a condition become a column.
        case defines
        case evaluates
    }

    private struct State {
        var mode = Mode.evaluates
        var columns: [String] = []
        var selects = 0
        var refusal: String?
        var end: Int64 = .max
    }

    private let state = Locked(State())

    var columns: [String] { state.withLock { $0.columns } }
    /// Why the last expression was refused.
    var refusal: String? { state.withLock { $0.refusal } }

    func begin(_ mode: Mode) {
        let end = Self.processorTime + ConditionDatabase.mostTime.nanoseconds
        state.withLock { $0 = State(mode: mode, end: end) }
    }

    func watch(_ db: OpaquePointer) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_set_authorizer(
            db,
            { context, action, first, second, _, _ in
                guard let context else { return SQLITE_DENY }
                let guardian = Unmanaged<ConditionGuardian>.fromOpaque(context).takeUnretainedValue()
                return guardian.allows(
                    action, first.map { String(cString: $0) }, second.map { String(cString: $0) })
                    ? SQLITE_OK : SQLITE_DENY
            }, context)
        sqlite3_progress_handler(
            db, 500,
            { context in
                guard let context else { return 1 }
                return Unmanaged<ConditionGuardian>.fromOpaque(context).takeUnretainedValue().isOver ? 1 : 0
            }, context)
    }

    var isOver: Bool { state.withLock { Self.processorTime > $0.end } }

    private static var processorTime: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// See https://www.sqlite.org/c3ref/c_alter_table.html for the meaning of the two texts.
    private func allows(_ action: Int32, _ first: String?, _ second: String?) -> Bool {
        state.withLock { state in
            guard case .reads = state.mode else { return true }
            switch action {
            case SQLITE_SELECT:
                state.selects += 1
                if state.selects > 1 { state.refusal = "it has a subquery" }
            case SQLITE_READ:
                if let name = second, !name.isEmpty {
                    if SQLText.areSame(name, "rowid") {
                        state.refusal = "the rowid is no column: name the primary key's"
                    } else {
                        state.columns.append(name)
                    }
                }
            case SQLITE_FUNCTION:
                let name = SQLText.folded(second ?? "")
                if !Self.functions.contains(name) {
                    state.refusal = "the function \(name)() is not allowed"
                }
            default: state.refusal = "it does more than to look at a row"
            }
            return state.refusal == nil
        }
    }

    /// Built-in functions that return the same result for the same values. SQLite refuses date functions
    /// that query the current time.
    private static let functions: Set<String> = [
        "abs", "ceil", "ceiling", "char", "coalesce", "concat", "concat_ws", "date", "datetime", "floor",
        "format",
        "glob", "hex", "if", "ifnull", "iif", "instr", "julianday", "json", "json_array", "json_array_length",
        "json_extract", "json_object", "json_quote", "json_type", "json_valid", "length", "like", "likelihood",
        "likely", "lower", "ltrim", "max", "min", "mod", "nullif", "octet_length", "printf", "quote", "replace",
        "round", "rtrim", "sign", "strftime", "substr", "substring", "time", "timediff", "trim", "trunc",
        "typeof",
        "unhex", "unicode", "unixepoch", "unlikely", "upper", "->", "->>",
    ]
}
