import PersistentHistory

/// A change of the schema amid the writes.
enum Alteration: Hashable {
    case addColumn(table: String, column: String, definition: String)
    case renameColumn(table: String, from: String, to: String)
    case dropColumn(table: String, column: String)
    case renameTable(from: String, to: String)
    case dropTable(String)
    /// Dropped, and created as it was at first.
    case makeAnew(table: String, create: String)
    /// Runs before the triggers that record, until tracking is brought up to date, and may skip them.
    case createTrigger(name: String, table: String, time: String, event: String, body: String)

    var statements: [String] {
        switch self {
        case .addColumn(let table, let column, let definition):
            ["ALTER TABLE \(SQL.quoted(table)) ADD COLUMN \(SQL.quoted(column)) \(definition)"]
        case .renameColumn(let table, let from, let to):
            ["ALTER TABLE \(SQL.quoted(table)) RENAME COLUMN \(SQL.quoted(from)) TO \(SQL.quoted(to))"]
        case .dropColumn(let table, let column):
            ["ALTER TABLE \(SQL.quoted(table)) DROP COLUMN \(SQL.quoted(column))"]
        case .renameTable(let from, let to):
            ["ALTER TABLE \(SQL.quoted(from)) RENAME TO \(SQL.quoted(to))"]
        case .dropTable(let table): ["DROP TABLE \(SQL.quoted(table))"]
        case .makeAnew(let table, let create): ["DROP TABLE \(SQL.quoted(table))", create]
        case .createTrigger(let name, let table, let time, let event, let body):
            [
                "CREATE TRIGGER \(SQL.quoted(name)) \(time) \(event) ON \(SQL.quoted(table)) BEGIN \(body); END"
            ]
        }
    }

    /// The table whose triggers are in the way: a column that they name cannot be dropped.
    var tableInTheWay: String? {
        if case .dropColumn(let table, _) = self { table } else { nil }
    }

    var droppedTable: String? {
        switch self {
        case .dropTable(let table), .makeAnew(let table, _): table
        case .addColumn, .renameColumn, .dropColumn, .renameTable, .createTrigger: nil
        }
    }

    /// Whether nothing is recorded until tracking is brought up to date, as the contract says.
    var endsRecording: Bool {
        switch self {
        case .dropColumn, .makeAnew: true
        case .addColumn, .renameColumn, .renameTable, .dropTable, .createTrigger: false
        }
    }
}

/// Makes alterations, and keeps the models as the tables are after them.
struct AlterationGenerator {
    var dice: Dice
    var tables: [TableModel]
    /// The statements that made the tables that still have their names, with what they make.
    private var origins: [BinaryText: (create: String, model: TableModel)]
    private var number = 0
    /// Names of the rowid that columns took from it. When such a column is renamed, the triggers that hear of
    /// an update by that name go with it.
    private var taken: Set<String> = []
    /// A column has had the name by which triggers know a rowid, and may have it no more: they still know it by
    /// another.
    private var hadFirstName = false

    init(dice: Dice, tables: [TableModel], schema: [SQL]) {
        self.dice = dice
        self.tables = tables
        let pairs = zip(tables, schema).map { (BinaryText($0.name), (create: $1.text, model: $0)) }
        origins = Dictionary(uniqueKeysWithValues: pairs)
    }

    mutating func next() -> Alteration {
        number += 1
        let index = dice.number(0...tables.count - 1)
        let table = tables[index]
        let column = dice.one(of: table.columns)
        switch dice.number(0...13) {
        case 0...3:
            let type = dice.one(of: table.isStrict ? ["TEXT", "ANY"] : ["TEXT", "", "NUMERIC"])
            let isGenerated = dice.once(in: 6)
            let added = TableModel.Column(
                name: newName("added", in: table), type: type, isGenerated: isGenerated, isPicky: false)
            var definition = type
            if isGenerated {
                definition += " AS (typeof(\(column.quoted)))"
            } else if dice.once(in: 2) {
                definition += " DEFAULT " + dice.one(of: ["'a'", "1", "'it''s'"])
                if dice.once(in: 2) { definition += " NOT NULL" }
            }
            tables[index].columns.append(added)
            return .addColumn(table: table.name, column: added.name, definition: definition)
        case 4...6 where !taken.contains(column.name):
            let name = newName("renamed", in: table)
            hadFirstName = hadFirstName || column.name == "_rowid_"
            tables[index].rename(column.name, to: name)
            return .renameColumn(table: table.name, from: column.name, to: name)
        case 7 where table.writable.contains { !$0.name.hasSameBytes(as: column.name) }:
            // What is in a key or an index SQLite does not drop, and then the column is still there.
            hadFirstName = hadFirstName || column.name == "_rowid_"
            tables[index].columns.removeAll { $0.name.hasSameBytes(as: column.name) }
            return .dropColumn(table: table.name, column: column.name)
        case 8, 9:
            let name = dice.one(of: [
                "moved \(number)", "it's \(number)", "Été\(number)", "E\u{301}te\u{301}\(number)",
            ])
            tables[index].name = name
            origins[table.name] = nil
            return .renameTable(from: table.name, to: name)
        case 10 where tables.count > 1:
            tables.remove(at: index)
            origins[table.name] = nil
            return .dropTable(table.name)
        case 11, 12:
            // What keeps the row may also be a conflict that it meets.
            let time = dice.one(of: ["AFTER", "AFTER", "AFTER", "BEFORE"])
            let raise = dice.one(of: ["IGNORE", "IGNORE", "FAIL, 'no'", "ABORT, 'no'", "ROLLBACK, 'no'"])
            let later = Array(tables.dropFirst(index + 1))
            let target = later.isEmpty ? nil : dice.one(of: later)
            return .createTrigger(
                name: "newer \(number)", table: table.name, time: time,
                event: dice.one(of: ["INSERT", "UPDATE", "DELETE"]),
                body: time == "AFTER" && dice.once(in: 3)
                    ? target.map { insertion($0) } ?? "SELECT RAISE(\(raise))" : "SELECT RAISE(\(raise))")
        default:
            guard let origin = origins[table.name] else {
                return .addColumn(table: table.name, column: "never \(number)", definition: "")
            }
            tables[index] = origin.model
            return .makeAnew(table: table.name, create: origin.create)
        }
    }

    private mutating func insertion(_ table: TableModel) -> String {
        let values = table.writable.map { Values.literal($0, &dice) }.joined(separator: ", ")
        let columns = table.writable.map(\.quoted).joined(separator: ", ")
        return "INSERT OR FAIL INTO \(table.quoted) (\(columns)) VALUES (\(values))"
    }

    /// Also one that takes a name of the rowid from it; where `_rowid_` is taken, triggers know it by the others.
    private mutating func newName(_ prefix: String, in table: TableModel) -> String {
        let isFree = !hadFirstName && !table.columns.contains { $0.name == "_rowid_" }
        guard isFree, dice.once(in: 6) else { return "\(prefix) \(number)" }
        let name = dice.one(of: ["rowid", "OID"])
        // A column that is computed of its own name is computed of itself, and nobody can read the table.
        guard !table.columns.contains(where: { $0.name.lowercased() == name.lowercased() }) else {
            return "\(prefix) \(number)"
        }
        taken.insert(name)
        return name
    }
}
