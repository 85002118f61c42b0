/// Writes a store as Core Data does: tables of the model, history, strings, bitmaps, tombstones. It keeps each
/// transaction, so that tests can compare what they read.
public final class GeneratedStore {
    /// Where the strings of transactions are stored.
    public enum Layout: Sendable, CaseIterable {
        /// In the transaction's row, as framework 851 did.
        case inline
        /// In `ATRANSACTIONSTRING`.
        case strings
    }

    public enum Operation: Sendable, Hashable {
        case insert
        /// An update of some properties.
        case update(Set<String>)
        /// A deletion, with the values of preserved attributes.
        case delete([String: StoredValue])
    }

    public struct Change: Sendable, Hashable {
        public var entity: String
        public var object: Int64
        public var operation: Operation
        /// `ACHANGE.Z_PK`
        public fileprivate(set) var number: Int64 = 0

        public init(_ entity: String, _ object: Int64, _ operation: Operation) {
            self.entity = entity
            self.object = object
            self.operation = operation
        }
    }

    /// The origin of a transaction.
    public struct Origin: Sendable, Hashable {
        public var author: String?
        public var context: String?
        public var process: String?
        public var bundleID: String?

        public init(
            author: String? = nil, context: String? = nil, process: String? = "app",
            bundleID: String? = "org.example.app"
        ) {
            self.author = author
            self.context = context
            self.process = process
            self.bundleID = bundleID
        }
    }

    /// An object, with its attributes and to-one relationships that are not null.
    public struct Object: Sendable, Hashable {
        public var entity: String
        public var values: [String: StoredValue] = [:]
    }

    /// By the name of the root entity, and the number.
    public typealias Objects = [String: [Int64: Object]]

    public struct Transaction: Sendable {
        public var number: Int64
        public var origin: Origin
        /// In seconds since 2001.
        public var time: Double
        public var changes: [Change]
        /// All objects before and after it, in a store with values.
        public var before: Objects = [:]
        public var after: Objects = [:]
    }

    public let path: String
    public let uuid: String
    public let layout: Layout
    public private(set) var model: StoreModel
    /// The current content of the history.
    public private(set) var transactions: [Transaction] = []
    public private(set) var layouts: [String: PropertyLayout] = [:]
    /// Whether objects have values.
    private let hasValues: Bool
    /// The present objects, in a store with values.
    public private(set) var objects: Objects = [:]
    private var numbers: [String: Int64] = [:]
    private var nextTransaction: Int64 = 1
    private var nextChange: Int64 = 1
    private var tombstones = 0
    private var strings: [String: Int64] = [:]
    private let connection: Connection
    private var random: any RandomNumberGenerator

    public init(
        _ path: String, _ model: StoreModel, uuid: String = "0F0E0D0C-0B0A-4908-8706-050403020100",
        layout: Layout = .strings, journal: String = "WAL", hasModel: Bool = true, isIndexed: Bool = true,
        hasValues: Bool = false, random: any RandomNumberGenerator
    ) throws {
        (self.path, self.uuid, self.layout, self.model, self.random) = (path, uuid, layout, model, random)
        self.hasValues = hasValues
        connection = try Connection(path)
        try connection.script(
            "PRAGMA auto_vacuum = 2; PRAGMA journal_mode = \(journal); PRAGMA synchronous = OFF; BEGIN")
        try connection.script(
            """
            CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_NAME VARCHAR, Z_SUPER INTEGER, Z_MAX INTEGER);
            CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_UUID VARCHAR(255), Z_PLIST BLOB);
            CREATE TABLE ACHANGE (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZCHANGETYPE INTEGER,
                ZENTITY INTEGER, ZENTITYPK INTEGER, ZTRANSACTIONID INTEGER, ZCOLUMNS BLOB);
            """)
        if hasModel { try connection.script("CREATE TABLE Z_MODELCACHE (Z_CONTENT BLOB)") }
        if isIndexed {
            try connection.script("CREATE INDEX ACHANGE_ZTRANSACTIONID_INDEX ON ACHANGE (ZTRANSACTIONID)")
        }
        let numbers = "ZAUTHORTS INTEGER, ZBUNDLEIDTS INTEGER, ZCONTEXTNAMETS INTEGER, ZPROCESSIDTS INTEGER, "
        try connection.script(
            """
            CREATE TABLE ATRANSACTION (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER,
                \(layout == .strings ? numbers : "")ZTIMESTAMP FLOAT, ZAUTHOR VARCHAR, ZBUNDLEID VARCHAR,
                ZCONTEXTNAME VARCHAR, ZPROCESSID VARCHAR, ZQUERYGEN BLOB);
            """)
        if layout == .strings {
            try connection.script(
                "CREATE TABLE ATRANSACTIONSTRING (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZNAME VARCHAR)"
            )
        }
        let metadata = PropertyListWriter.bytes(
            .dictionary([
                ("NSPersistenceFrameworkVersion", .integer(layout == .strings ? 1251 : 851)),
                ("NSStoreModelVersionIdentifiers", .array([.text("1.0")])), ("NSStoreType", .text("SQLite")),
            ]))
        try connection.run("INSERT INTO Z_METADATA VALUES (1, ?, ?)", [.text(uuid), .blob(metadata)])
        try follow(model, hasModel: hasModel)
        try connection.script("COMMIT")
    }

    /// Closes the connection, as the app does: SQLite then checkpoints the log into the file.
    public func close() { connection.close() }

    // MARK: Writing

    /// Commits a transaction without a declared origin.
    @discardableResult
    public func commit(_ changes: [Change]) throws -> Transaction { try commit(Origin(), changes) }

    /// Commits a transaction of an origin.
    @discardableResult
    public func commit(_ origin: Origin, time: Double? = nil, _ changes: [Change]) throws -> Transaction {
        let number = nextTransaction
        let time = time ?? 700_000_000 + Double(number) + 0.125
        let before = objects
        var written = changes
        try connection.script("BEGIN IMMEDIATE")
        try write(origin, number, time)
        for index in written.indices {
            // A gap, as in real histories.
            nextChange += Int.random(in: 0..<20, using: &random) == 0 ? 3 : 0
            written[index].number = nextChange
            try write(written[index], number)
            nextChange += 1
        }
        try connection.run(
            "UPDATE Z_PRIMARYKEY SET Z_MAX = ? WHERE Z_NAME = 'TRANSACTION'", [.integer(number)])
        try connection.run(
            "UPDATE Z_PRIMARYKEY SET Z_MAX = ? WHERE Z_NAME = 'CHANGE'", [.integer(nextChange - 1)])
        try connection.script("COMMIT")
        nextTransaction += 1
        let transaction = Transaction(
            number: number, origin: origin, time: time, changes: written, before: before, after: objects)
        transactions.append(transaction)
        return transaction
    }

    private func write(_ origin: Origin, _ number: Int64, _ time: Double) throws {
        let texts = [origin.author, origin.bundleID, origin.context, origin.process]
        let values = texts.map { $0.map { StoredValue.text($0) } ?? .null }
        let start: [StoredValue] = [.integer(number), .integer(16002), .integer(1)]
        guard layout == .strings else {
            try connection.run(
                "INSERT INTO ATRANSACTION VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", start + [.real(time)] + values
            )
            return
        }
        let references = try texts.map { try $0.map { .integer(try string($0)) } ?? StoredValue.null }
        try connection.run(
            "INSERT INTO ATRANSACTION VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, NULL)",
            start + references + [.real(time)])
    }

    private func string(_ text: String) throws -> Int64 {
        if let known = strings[text] { return known }
        let number = Int64(strings.count + 1)
        try connection.run(
            "INSERT INTO ATRANSACTIONSTRING VALUES (?, 16003, 1, ?)", [.integer(number), .text(text)])
        strings[text] = number
        return number
    }

    private func write(_ change: Change, _ transaction: Int64) throws {
        var values: [StoredValue] = [.integer(change.number), .integer(16001), .integer(1)]
        let kind: Int64
        var bitmap = StoredValue.null
        var preserved = [StoredValue](repeating: .null, count: tombstones)
        switch change.operation {
        case .insert: kind = 0
        case .update(let properties):
            kind = 1
            bitmap = .blob(layouts[change.entity]?.bitmap(properties, &random) ?? [])
        case .delete(let kept):
            kind = 2
            for (index, attribute) in self.preserved(change.entity).enumerated() {
                preserved[index] = kept[attribute.name] ?? .null
            }
        }
        values += [
            .integer(kind), .integer(numbers[change.entity] ?? 0), .integer(change.object),
            .integer(transaction),
        ]
        let marks = [String](repeating: "?", count: 8 + tombstones).joined(separator: ", ")
        try connection.run("INSERT INTO ACHANGE VALUES (\(marks))", values + [bitmap] + preserved)
        let table = "Z" + (model.line(of: change.entity).first?.name ?? "").uppercased()
        switch change.operation {
        case .insert:
            try connection.run(
                "INSERT OR REPLACE INTO \(table) (Z_PK, Z_ENT, Z_OPT) VALUES (?, ?, 1)",
                [.integer(change.object), .integer(numbers[change.entity] ?? 0)])
        case .update: break
        case .delete: try connection.run("DELETE FROM \(table) WHERE Z_PK = ?", [.integer(change.object)])
        }
        if hasValues { try writeValues(change, table) }
    }

    private func writeValues(_ change: Change, _ table: String) throws {
        let root = model.line(of: change.entity).first?.name ?? ""
        switch change.operation {
        case .insert:
            objects[root, default: [:]][change.object] = Object(entity: change.entity)
            try setValues(change.entity, change.object) { _ in true }
        case .update(let names): try setValues(change.entity, change.object) { names.contains($0) }
        case .delete: objects[root]?[change.object] = nil
        }
    }

    /// Gives properties of an object other values; also without a trace in the history.
    public func setValues(_ entity: String, _ number: Int64, _ isWanted: (String) -> Bool) throws {
        let line = model.line(of: entity)
        let root = line.first?.name ?? ""
        guard objects[root]?[number]?.entity == entity else { return }
        let attributes = line.flatMap(\.attributes).filter { !$0.isTransient }.map {
            ($0.name, Optional($0.type))
        }
        let toOne = line.flatMap(\.relationships).filter { !$0.isToMany }.map {
            ($0.name, StoreModel.AttributeType?.none)
        }
        for (name, type) in attributes + toOne where isWanted(name) {
            let value = anyValue(type)
            try connection.run(
                "UPDATE Z\(root.uppercased()) SET \"Z\(name.uppercased())\" = ? WHERE Z_PK = ?",
                [value, .integer(number)])
            objects[root]?[number]?.values[name] = value == .null ? nil : value
        }
    }

    private func anyValue(_ type: StoreModel.AttributeType?) -> StoredValue {
        func made<R: RandomNumberGenerator>(_ random: inout R) -> StoredValue {
            if Int.random(in: 0..<6, using: &random) == 0 { return .null }
            guard let type else { return .integer(Int64.random(in: 1...50, using: &random)) }
            let value = StoredValue.any(type, &random)
            // SQLite keeps a date without a fraction as an integer.
            if type == .date, case .real(let seconds) = value, Bool.random(using: &random) {
                return .real(seconds.rounded())
            }
            return value
        }
        return made(&random)
    }

    /// Runs statements on the app's connection, such as a checkpoint.
    public func script(_ statements: String) throws { try connection.script(statements) }

    /// The attributes that tombstones of an entity keep, in order.
    public func preserved(_ entity: String) -> [StoreModel.Attribute] {
        model.line(of: entity).flatMap { level in
            level.attributes.filter { $0.isPreserved && !$0.isTransient }
                .sorted { Array($0.name.utf8).lexicographicallyPrecedes(Array($1.name.utf8)) }
        }
    }

    /// Deletes the transactions up to one, with their changes. The strings are kept.
    public func purge(through number: Int64) throws {
        try connection.script(
            "BEGIN IMMEDIATE; DELETE FROM ACHANGE WHERE ZTRANSACTIONID <= \(number); DELETE FROM ATRANSACTION WHERE Z_PK <= \(number); COMMIT"
        )
        transactions.removeAll { $0.number <= number }
    }

    /// Migrates to another model: entities get other numbers, and the history's references by number are
    /// rewritten.
    public func migrate(to model: StoreModel) throws {
        try connection.script("BEGIN IMMEDIATE")
        try follow(model, hasModel: true)
        for transaction in transactions {
            for change in transaction.changes {
                var bitmap = StoredValue.null
                if case .update(let properties) = change.operation {
                    bitmap = .blob(layouts[change.entity]?.bitmap(properties, &random) ?? [])
                }
                try connection.run(
                    "UPDATE ACHANGE SET ZENTITY = ?, ZCOLUMNS = ? WHERE Z_PK = ?",
                    [.integer(numbers[change.entity] ?? 0), bitmap, .integer(change.number)])
            }
        }
        try connection.script("COMMIT")
        try commit(Origin(author: "com.apple.coredata.schemamigrator", process: "app"), [])
    }

    // MARK: The schema

    private func follow(_ model: StoreModel, hasModel: Bool) throws {
        self.model = model
        let names = model.entities.map(\.name).sorted()
        let first = Int64.random(in: 1...3, using: &random)
        numbers = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($1, first + Int64($0)) })
        layouts = [:]
        for name in names {
            var random = random
            layouts[name] = Self.layout(of: name, model, &random)
            self.random = random
        }
        try connection.run("DELETE FROM Z_PRIMARYKEY")
        for name in names {
            let parent = model.entity(name)?.parent.flatMap { numbers[$0] } ?? 0
            try connection.run(
                "INSERT INTO Z_PRIMARYKEY VALUES (?, ?, ?, 0)",
                [.integer(numbers[name] ?? 0), .text(name), .integer(parent)])
        }
        let own = ["CHANGE", "TRANSACTION"] + (layout == .strings ? ["TRANSACTIONSTRING"] : [])
        for (index, name) in own.enumerated() {
            try connection.run(
                "INSERT INTO Z_PRIMARYKEY VALUES (?, ?, 0, ?)",
                [.integer(Int64(16001 + index)), .text(name), .integer(index == 1 ? nextTransaction - 1 : 0)])
        }
        if hasModel {
            let archive = ModelArchive.bytes(model)
            let content = Bool.random(using: &random) ? Deflate.fixed(archive) : Deflate.stored(archive)
            try connection.run("DELETE FROM Z_MODELCACHE")
            try connection.run("INSERT INTO Z_MODELCACHE VALUES (?)", [.blob(content)])
        }
        for name in names where model.entity(name)?.parent == nil { try makeTable(of: name) }
        let most = names.map { preserved($0).count }.max() ?? 0
        while tombstones < most {
            try connection.script("ALTER TABLE ACHANGE ADD COLUMN ZTOMBSTONE\(tombstones) BLOB")
            tombstones += 1
        }
    }

    private static func layout(
        of name: String, _ model: StoreModel, _ random: inout any RandomNumberGenerator
    ) -> PropertyLayout {
        func made<R: RandomNumberGenerator>(_ random: inout R) -> PropertyLayout {
            PropertyLayout(of: name, in: model, &random)
        }
        return made(&random)
    }

    private func makeTable(of root: String) throws {
        var columns = ["Z_PK INTEGER PRIMARY KEY", "Z_ENT INTEGER", "Z_OPT INTEGER"]
        // Siblings' attributes of the same name have columns with numbers.
        var counts: [String: Int] = [:]
        for entity in model.entities where model.line(of: entity.name).first?.name == root {
            for relationship in entity.relationships where !relationship.isToMany {
                columns.append("\"Z\(relationship.name.uppercased())\" INTEGER")
                if model.hasChildren(relationship.destination) {
                    columns.append(
                        "\"Z\(numbers[relationship.destination] ?? 0)_\(relationship.name.uppercased())\" INTEGER"
                    )
                }
                if let inverse = model.inverse(of: relationship), inverse.isToMany, inverse.isOrdered {
                    columns.append("\"Z_FOK_\(relationship.name.uppercased())\" INTEGER")
                }
            }
            for attribute in entity.attributes where !attribute.isTransient {
                let count = counts[attribute.name, default: 0]
                counts[attribute.name] = count + 1
                let column = "Z\(attribute.name.uppercased())\(count == 0 ? "" : String(count))"
                columns.append("\"\(column)\" \(attribute.type.columnType)")
            }
        }
        let table = "Z" + root.uppercased()
        try connection.script(
            "DROP TABLE IF EXISTS \(table); CREATE TABLE \(table) (\(columns.joined(separator: ", ")))")
    }
}
