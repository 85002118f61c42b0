import PersistentHistory

/// A table of so many columns, and the statements that write one row of it.
struct RecordedTable {
    let columns: Int
    private let names: [String]

    init(columns: Int) {
        self.columns = columns
        names = (2...columns).map { "c\($0)" }
    }

    /// Every other column is a number, the others are short texts.
    private func isNumber(_ index: Int) -> Bool { index.isMultiple(of: 2) }

    var create: String {
        let list = names.enumerated().map { "\($1) \(isNumber($0) ? "INTEGER" : "TEXT") NOT NULL" }
        return "CREATE TABLE item (id INTEGER PRIMARY KEY, \(list.joined(separator: ", ")))"
    }

    /// With the row's key for ?1, as in all that follow.
    var insert: String {
        let values = names.indices.map { isNumber($0) ? "?1 + \($0)" : "'text \($0) of a row'" }
        return "INSERT INTO item VALUES (?1, \(values.joined(separator: ", ")))"
    }

    var delete: String { "DELETE FROM item" }

    var updateOne: String { "UPDATE item SET \(assignment(0))" }

    var updateAll: String { "UPDATE item SET \(names.indices.map(assignment).joined(separator: ", "))" }

    /// Another value than before, each time.
    private func assignment(_ index: Int) -> String {
        let name = names[index]
        return isNumber(index)
            ? "\(name) = \(name) + 1" : "\(name) = CASE \(name) WHEN 'one' THEN 'two' ELSE 'one' END"
    }

    /// The minimum that recording by triggers costs: for each kind of write, one trigger that inserts one row of
    /// constants.
    static let floor = """
        CREATE TABLE log (id INTEGER PRIMARY KEY, origin, kind INTEGER, object, detail);
        CREATE TRIGGER inserted AFTER INSERT ON item BEGIN \(log(4)); END;
        CREATE TRIGGER updated AFTER UPDATE ON item BEGIN \(log(5)); END;
        CREATE TRIGGER deleted AFTER DELETE ON item BEGIN \(log(6)); END;
        """

    /// A hand-written log of changes, which the aims compare to: the table, the operation, the row and the time.
    static let handWritten = """
        CREATE TABLE log (
            id INTEGER PRIMARY KEY AUTOINCREMENT, entity TEXT NOT NULL, operation TEXT NOT NULL, object INTEGER NOT NULL,
            at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')));
        CREATE TRIGGER inserted AFTER INSERT ON item BEGIN
            INSERT INTO log (entity, operation, object) VALUES ('item', 'insert', NEW.id); END;
        CREATE TRIGGER updated AFTER UPDATE ON item BEGIN
            INSERT INTO log (entity, operation, object) VALUES ('item', 'update', NEW.id); END;
        CREATE TRIGGER deleted AFTER DELETE ON item BEGIN
            INSERT INTO log (entity, operation, object) VALUES ('item', 'delete', OLD.id); END;
        """

    private static func log(_ kind: Int) -> String {
        "INSERT INTO log (origin, kind, object, detail) VALUES ('5d1b7a90.1f4\t4711\t1767225600000\tWriter', \(kind), 5000000, 2)"
    }
}
