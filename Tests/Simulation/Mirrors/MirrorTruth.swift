import GRDB
import HistoryMirrors
import PersistentHistory

/// What a database shows of the tables that are published.
struct ShownStore: Sendable {
    /// By table: its definitions and rows.
    var rows: [String: [String]] = [:]
    /// By number.
    var history: [Int64: String] = [:]

    /// - Parameter tables: Nil for all.
    init(_ db: Database, _ tables: [String]?) throws {
        let wanted = tables.map { " AND name IN (\($0.map { "'\($0)'" }.joined(separator: ", ")))" } ?? ""
        let names = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'historyd_%'
                AND name NOT LIKE 'sqlite_%'\(wanted) ORDER BY 1
                """)
        for name in names {
            let columns = try String.fetchAll(
                db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [name])
            let list = columns.map { "quote(\"\($0)\")" }.joined(separator: " || '|' || ")
            rows[name] =
                try String.fetchAll(
                    db,
                    sql: """
                        SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND type IN ('table', 'index')
                        AND name NOT LIKE 'historyd_%' AND sql IS NOT NULL ORDER BY 1
                        """, arguments: [name])
                + String.fetchAll(db, sql: "SELECT \(list) FROM \"\(name)\" ORDER BY 1")
        }
        let chosen = tables.map { "AND name IN (\($0.map { "'\($0)'" }.joined(separator: ", ")))" } ?? ""
        let changes = try Row.fetchCursor(
            db,
            sql: """
                SELECT id, quote(origin) || kind || quote(object) || quote(detail) AS text
                FROM historyd_change JOIN historyd_entity ON shape = kind >> 2 WHERE kind & 3 <> 3 \(chosen)
                """)
        while let change = try changes.next() { history[change["id"]] = change["text"] }
    }
}

/// Each state that the source had, by the position that stands for it.
struct MirrorTruth: Sendable {
    private struct Moment: Sendable {
        let position: StreamPosition
        let store: ShownStore
        /// All changes up to it, also those that were cleaned since.
        let line: [Int64: String]
    }

    private let tables: [String]?
    private var moments: [Moment] = []
    /// The changes of the source, also those that were cleaned.
    private var line: [Int64: String] = [:]

    init(_ tables: [String]?) { self.tables = tables }

    /// Notes the state of the source.
    mutating func note(_ db: Database, at position: StreamPosition) throws {
        let shown = try ShownStore(db, tables)
        line = line.filter { $0.key <= position.number }.merging(shown.history) { $1 }
        moments.append(Moment(position: position, store: shown, line: line))
    }

    /// Through which number the source was cleaned before it went back: a mirror that was filled then lacks that for good.
    private var wasCleaned: Int64 = 0
    private var isCleaned: Int64 = 0

    mutating func clean(through number: Int64) { isCleaned = max(isCleaned, number) }

    /// The source is what it was, and what it has been since is known all the same.
    mutating func goBack(to earlier: MirrorTruth) {
        line = earlier.line
        (wasCleaned, isCleaned) = (max(wasCleaned, isCleaned), earlier.isCleaned)
    }

    /// What a mirror at a position shows and must not, or does not and must; nil if it is right.
    ///
    /// - Parameter cleaned: Through which number its history was cleaned.
    func difference(_ mirror: ShownStore, at position: StreamPosition, cleaned: Int64) -> String? {
        let same = moments.filter {
            $0.position.number == position.number && !$0.position.contradicts(position)
        }
        if same.isEmpty { return "its position \(position.text) is none that the source had" }
        guard let moment = same.last(where: { $0.store.rows == mirror.rows }) else {
            let expected = same.last?.store.rows ?? [:]
            for name in Set(expected.keys).union(mirror.rows.keys).sorted() {
                let (here, there) = (Set(expected[name] ?? []), Set(mirror.rows[name] ?? []))
                if here != there {
                    let (lacks, has) = (here.subtracting(there).sorted(), there.subtracting(here).sorted())
                    return "of \(name) it lacks \(lacks) and has \(has)"
                }
            }
            return "its tables are others"
        }
        for (number, text) in mirror.history.sorted(by: { $0.key < $1.key }) where moment.line[number] != text {
            return "its history has \(number) \(text), and the source \(moment.line[number] ?? "nothing")"
        }
        // What the source may have had cleaned when the mirror was filled is not wanted.
        let wanted = same.reduce(Set(moment.store.history.keys)) { $0.intersection($1.store.history.keys) }
        let lacking = wanted.subtracting(mirror.history.keys).filter { $0 > max(cleaned, wasCleaned) }.sorted()
        return lacking.isEmpty ? nil : "its history lacks \(lacking)"
    }
}
