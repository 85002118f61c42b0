internal import FoundationEssentials
import GRDB

/// The names that `track` was asked for. They stay wanted until `untrack`, whatever happens to their
/// tables.
///
/// A tool that rebuilds a table may remove it for a moment, or give its name to another one. So the names
/// are stored separately from the triggers, which belong to a table.
struct WantedNames: Equatable, Sendable {
    struct Entry: Codable, Equatable, Sendable {
        var name: BinaryText
        /// The columns to preserve, including those that the table does not have at the moment.
        var preserved: [BinaryText]
        /// The present name of the table that has the triggers.
        var renamedTo: BinaryText?
    }

    /// By folded name.
    private var entries: [BinaryText: Entry] = [:]

    private static let key = "wanted"

    init() {}

    /// The names for a store that does not keep them yet: those of all tracked entities.
    init(tracked: some Sequence<Entity>) {
        for entity in tracked { want(entity.name, preserving: entity.preserved.map { BinaryText($0.name) }) }
    }

    /// The names that a store keeps; nil if it keeps none.
    ///
    /// - Throws: `DatabaseError`, or `UnexpectedValue`.
    init?(_ db: Database) throws {
        guard
            let row = try Row.fetchOne(
                db, sql: "SELECT value FROM historyd_store WHERE key = ?", arguments: [Self.key])
        else { return nil }
        let text = try row.text("value", atMost: EntityCatalog.Limits.definition)
        guard let list = try? JSONDecoder().decode([Entry].self, from: Data(text.utf8)) else {
            throw UnexpectedValue("what names the wanted entities is not a list of names")
        }
        for entry in list { entries[SQLText.folded(entry.name.text)] = entry }
    }

    func save(_ db: Database) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        try db.execute(
            sql: "INSERT OR REPLACE INTO historyd_store VALUES (?, ?)",
            arguments: [Self.key, String(decoding: try encoder.encode(all), as: UTF8.self)])
    }

    var all: [Entry] { entries.values.sorted { $0.name < $1.name } }

    subscript(name: String) -> Entry? {
        get { entries[SQLText.folded(name)] }
        set { entries[SQLText.folded(name)] = newValue }
    }

    mutating func want(_ name: String, preserving columns: [BinaryText]) {
        self[name] = Entry(name: BinaryText(name), preserved: columns)
    }

    /// Notes the new name of a table that is wanted by this name, or by an earlier one.
    mutating func follow(_ name: String, to newName: String) {
        for entry in all {
            let last = (entry.renamedTo ?? entry.name).text
            if SQLText.areSame(last, name) { self[entry.name.text]?.renamedTo = BinaryText(newName) }
        }
    }

    /// Forgets a name, and the earlier name of the table that has it.
    mutating func forget(_ name: String) {
        self[name] = nil
        for entry in all where entry.renamedTo.map({ SQLText.areSame($0.text, name) }) ?? false {
            self[entry.name.text] = nil
        }
    }
}

extension HistoryError {
    /// A wanted name without a table.
    static func isMissing(_ name: BinaryText) -> HistoryError {
        HistoryError(
            .notAnEntity, "The tracked table \"\(name)\" is not there.",
            hint:
                "When it is created again, it is tracked again; `historyctl untrack STORE \(ShellText.quote(name.text))` forgets it."
        )
    }
}
