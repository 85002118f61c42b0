internal import CSQLiteHistory
import GRDB
import GRDBSQLite
internal import Glibc

/// A file that SQLite calls malformed may be intact: a newer SQLite may have written a schema that this
/// one cannot parse.
///
/// A store is reported as damaged only if SQLite's own check ran, on another connection, and found
/// damage.
struct SuspectedDamage: Sendable {
    /// What `PRAGMA integrity_check` says.
    enum Check: Sendable, Equatable {
        case isSound
        case found(String)
        /// The schema cannot be read, the store is large or locked, or no file may be created beside it.
        case didNotRun
    }

    /// SQLite's message.
    let said: String
    /// The version of SQLite that last wrote the store, as a number such as 3040001; 0 if unknown.
    let writer: Int32
    let check: Check
    private let cause: DatabaseError?
    /// Whether no file beside the store may be created or changed.
    private let isUntouched: Bool

    /// A larger store takes seconds to check while others wait for the answer.
    private static let largestChecked: Int64 = 64 << 20
    static let own = sqlite3_libversion_number()

    init(said: String, writer: Int32, check: Check) {
        (self.said, self.writer, self.check, cause, isUntouched) = (said, writer, check, nil, false)
    }

    /// Does not open the store again.
    init(_ error: DatabaseError) {
        said = error.message ?? "SQLite result \(error.extendedResultCode.rawValue)"
        (writer, check, cause, isUntouched) = (0, .didNotRun, error, false)
    }

    /// Checks the store itself.
    init(_ error: DatabaseError, of path: String, isUntouched: Bool) {
        assertMayWait()
        said = error.message ?? "SQLite result \(error.extendedResultCode.rawValue)"
        (cause, self.isUntouched) = (error, isUntouched)
        let answer = Locked<(writer: Int32, check: Check)>((0, .didNotRun))
        do {
            try isUntouched
                ? UntouchedConnection.lookOnce(path) { db in
                    try answer.withLock { $0.writer = try Self.writer(db) }
                }
                : Self.look(path, answer)
        } catch {
            // The connection is of no further use. What the check did not find out stays unknown.
        }
        (writer, check) = answer.withLock { $0 }
    }

    private static func look(_ path: String, _ answer: Locked<(writer: Int32, check: Check)>) throws {
        let file = try StorePath.resolve(path)
        let hold = try SideFiles(of: file)?.prepare(for: .read, timeout: .zero)
        defer { withExtendedLifetime(hold) {} }
        var configuration = Configuration.ofStore
        configuration.readonly = true
        // This runs before GRDB's first look at the schema, which may fail.
        try DatabaseQueue.open(PlainFile.uri(file, mayMake: false, isReadOnly: true), configuration) { db in
            try ConnectionHardening.apply(db, .isLeftAlone)
            let found = (try writer(db), isSmall(file) ? check(db) : .didNotRun)
            answer.withLock { $0 = found }
        }
        .end()
    }

    /// `PRAGMA schema_version` reads the first page and parses nothing.
    private static func writer(_ db: Database) throws -> Int32 {
        _ = try db.currentSchemaVersion()
        return history_writer_version(db.sqliteConnection)
    }

    private static func isSmall(_ file: String) -> Bool {
        var status = stat()
        return stat(file, &status) == 0 && status.st_size <= largestChecked
    }

    private static func check(_ db: Database) -> Check {
        do {
            let said = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)")
            return said == nil || said == "ok" ? .isSound : .found(oneLine(said ?? ""))
        } catch {
            return .didNotRun
        }
    }

    private static func oneLine(_ text: String) -> String {
        text.split(whereSeparator: \.isNewline).joined(separator: ": ")
    }

    // MARK: The message

    func error(_ path: String) -> HistoryError {
        let (writer, own) = (Self.version(self.writer), Self.version(Self.own))
        let isNewer = self.writer > Self.own
        let byWhom =
            isNewer
            ? " SQLite \(writer) has written it (bytes 96 to 99 of its header); this program has \(own)." : ""
        switch check {
        case .found(let finding):
            return HistoryError(
                .storeCorrupt, "The store \"\(path)\" is damaged: \(said).\(byWhom)",
                hint: "`PRAGMA integrity_check` finds: \(finding.prefix(200)). Restore a backup.", cause: cause)
        case .didNotRun where isNewer:
            return HistoryError(
                .storeTooNew,
                "SQLite \(writer) has written the store \"\(path)\" (bytes 96 to 99 of its header), and this program's SQLite \(own) cannot read it: \(said).",
                hint:
                    "The store may well be sound: ask `PRAGMA integrity_check` of SQLite \(writer). Use a historyd with that SQLite, or create what is named here in a way that SQLite \(own) can read.",
                cause: cause)
        case .didNotRun:
            return HistoryError(
                .storeCorrupt, "The store \"\(path)\" cannot be read: \(said).",
                hint: isUntouched
                    ? UntouchedConnection.check
                    : "`PRAGMA integrity_check` of the application's SQLite tells whether it is damaged.",
                cause: cause)
        case .isSound:
            return HistoryError(
                .storeCorrupt,
                "SQLite \(own) cannot read something in the store \"\(path)\", though its check finds no damage: \(said).\(byWhom)",
                hint: "Run `PRAGMA integrity_check` with the application's SQLite as well.", cause: cause)
        }
    }

    /// `3.40.1`.
    static func version(_ number: Int32) -> String {
        "\(number / 1_000_000).\(number / 1000 % 1000).\(number % 1000)"
    }
}
