import Foundation
import GRDB
import PersistentHistory
import Testing

/// What hooks are for: the well-known patterns, as a program would write them.
@Suite(.timeLimit(.minutes(60))) struct TrackerExampleTests {
    // MARK: Observers

    @Test func auditTrail() async throws {
        actor AuditLog {
            private(set) var lines: [String] = []
            func record(_ context: HookContext) {
                let what = context.tombstone.map { $0.attributes.sorted { $0.key < $1.key }.map(\.value) } ?? []
                lines.append(
                    ([context.author ?? "unknown", context.operation.rawValue, context.entityName] + what)
                        .joined(separator: " "))
            }
        }
        let store = try TrackedStore()
        let tracker = store.tracker()
        let log = AuditLog()
        for operation in HookOperation.allCases {
            await tracker.registerObserver(entityName: "person", operation: operation) { contexts in
                for context in contexts { await log.record(context) }
            }
        }
        try store.write("INSERT INTO person VALUES (1, 'Ada', 'ada@x.org')")
        try store.write("UPDATE person SET name = 'Ada L.'", as: "Importer")
        try store.write("DELETE FROM person")
        try store.write("INSERT INTO item (id) VALUES (1)")
        try await tracker.runOnce()
        #expect(
            await log.lines == [
                "Widget insert person", "Importer update person", "Widget delete person ada@x.org Ada L.",
            ])
    }

    @Test func cacheInvalidation() async throws {
        actor Cache {
            private var titles: [URL: String] = [:]
            private(set) var misses = 0
            func title(of url: URL, load: () throws -> String) rethrows -> String {
                if let known = titles[url] { return known }
                misses += 1
                let title = try load()
                titles[url] = title
                return title
            }
            func invalidate(_ url: URL) { titles[url] = nil }
        }
        let store = try TrackedStore()
        let tracker = store.tracker()
        let cache = Cache()
        let seen = Notes()
        await tracker.registerObserver(entityName: "item", operation: .insert) { contexts in
            for context in contexts { await seen.add(context.objectIDURL.absoluteString) }
        }
        await tracker.registerObserver(entityName: "item", operation: .update) { contexts in
            for context in contexts where context.changedProperties.contains("title") {
                await cache.invalidate(context.objectIDURL)
            }
        }
        try store.write("INSERT INTO item (id, title) VALUES (1, 'one'), (2, 'two')")
        try await tracker.runOnce()
        let urls = await seen.all.compactMap { URL(string: $0) }
        func titles() async throws -> [String] {
            var titles: [String] = []
            for url in urls {
                let id = url.lastPathComponent.dropFirst()
                titles.append(
                    try await cache.title(of: url) {
                        try store.rows("SELECT title FROM item WHERE id = \(id)").first ?? ""
                    })
            }
            return titles
        }
        #expect(try await titles() == ["one", "two"])
        try store.write("UPDATE item SET title = 'new' WHERE id = 2")
        try store.write("UPDATE item SET note = 'n'")
        #expect(try await titles() == ["one", "two"], "nobody has told the cache yet")
        try await tracker.runOnce()
        #expect(try await titles() == ["one", "new"])
        #expect(await cache.misses == 3)
    }

    @Test func throttling() async throws {
        actor Throttle {
            private let interval: TimeInterval
            private var last = Date.distantPast
            init(interval: TimeInterval) { self.interval = interval }
            func mayNotify(at now: Date) -> Bool {
                guard now.timeIntervalSince(last) >= interval else { return false }
                last = now
                return true
            }
        }
        let store = try TrackedStore()
        let tracker = store.tracker()
        let notifications = Notes()
        let throttle = Throttle(interval: 3600)
        await tracker.registerObserver(entityName: "item", operation: .insert) { contexts in
            if await throttle.mayNotify(at: contexts[0].timestamp) {
                await notifications.add("\(contexts.count) new")
            }
        }
        try store.write("INSERT INTO item (id) VALUES (1), (2)")
        for id in 3...5 { try store.write("INSERT INTO item (id) VALUES (\(id))") }
        try await tracker.runOnce()
        #expect(await notifications.all == ["2 new"])
    }

    /// As Tombstones.md has it.
    @Test func originalTypesOfATombstone() async throws {
        let store = try TrackedStore()
        try await DatabaseQueue(path: store.path).writeWithoutTransaction { db in
            try db.execute(
                sql: "CREATE TABLE member (id INTEGER PRIMARY KEY, key UUID, born DATE, vip BOOLEAN)")
        }
        try Tracking.track(store.path, ["member": ["key", "born", "vip"]])
        let tracker = store.tracker()
        let notes = Notes()
        await tracker.registerObserver(entityName: "member", operation: .delete) { contexts in
            for context in contexts {
                let attributes = context.tombstone?.attributes ?? [:]
                let key = attributes["key"].flatMap { UUID(uuidString: $0) }
                let born = try attributes["born"].map { try Date($0, strategy: .iso8601) }
                let isVIP = attributes["vip"] == "true"
                await notes.add("\(key?.uuidString ?? "-") \(born?.timeIntervalSince1970 ?? 0) \(isVIP)")
            }
        }
        let id = UUID()
        let blob = id.uuidString.replacingOccurrences(of: "-", with: "")
        try store.write("INSERT INTO member VALUES (1, x'\(blob)', '1970-01-02', 1), (2, NULL, 86400, 0)")
        try store.write("DELETE FROM member")
        try await tracker.runOnce()
        #expect(await notes.all == ["\(id) 86400.0 true", "- 86400.0 false"])
    }

    // MARK: Merge hooks

    @Test func conditionalMerge() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker(contexts: [store.replica])
        try await tracker.runOnce()
        await tracker.registerMergeHook { input in
            let unwanted = input.transactions.filter { $0.author == "SYSTEM" }
            if unwanted.count == input.transactions.count { return .finish }
            return .rejecting(unwanted.map(\.token))
        }
        try store.write("INSERT INTO person (id) VALUES (1)", as: "SYSTEM")
        try await tracker.runOnce()
        #expect(try store.replicaRows("SELECT id FROM person") == [])
        try store.write("INSERT INTO person (id) VALUES (2)", as: "SYSTEM")
        try store.write("INSERT INTO person (id) VALUES (3)")
        try await tracker.runOnce()
        #expect(try store.replicaRows("SELECT id FROM person") == ["3"])
    }

    @Test func customMergeInsteadOfTheDefaultOne() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker(contexts: [store.replica])
        try await tracker.runOnce()
        let merged = Notes()
        await tracker.registerMergeHook { input in
            for context in input.contexts {
                for transaction in input.transactions {
                    try await context.merge([transaction], through: transaction.token)
                    await merged.add("\(context.name) \(transaction.changes.count)")
                }
            }
            return .finish
        }
        try store.write("INSERT INTO person (id) VALUES (1), (2)")
        try store.write("INSERT INTO person (id) VALUES (3)")
        try await tracker.runOnce()
        #expect(await merged.all == ["view 2", "view 1"])
        #expect(try store.replicaRows("SELECT id FROM person") == ["1", "2", "3"])
    }

    @Test func multiStagePipeline() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker(contexts: [store.replica])
        try await tracker.runOnce()
        let stages = Notes()
        // Post-processing is registered first, and the others in front of it.
        let post = await tracker.registerMergeHook { input in
            await stages.add("post-processing of \(input.transactions.count)")
            return .goOn
        }
        let validation = await tracker.registerMergeHook(before: post) { input in
            await stages.add("validation of \(input.transactions.count)")
            let invalid = input.transactions.filter { $0.author == nil }
            if input.transactions.contains(where: { $0.author == "BANNED" }) { return .finish }
            return .rejecting(invalid.map(\.token))
        }
        await tracker.registerMergeHook(before: post) { input in
            // Names are to be in capitals wherever they come from.
            let objects = input.transactions.flatMap(\.changes).filter {
                $0.entity.name == "person" && $0.operation != .delete
            }
            for case .integer(let id)? in objects.map(\.objectID.values.first) {
                try store.write("UPDATE person SET name = upper(name) WHERE id = \(id)", as: "MainApp")
            }
            await stages.add("preprocessing of \(input.transactions.count)")
            return .goOn
        }
        try store.write("INSERT INTO person VALUES (1, 'ada', NULL)")
        try await DatabaseQueue(path: store.path).write { db in
            try db.execute(sql: "INSERT INTO person VALUES (2, 'nobody', NULL)")
        }
        try await tracker.runOnce()
        #expect(
            await stages.all == ["validation of 2", "preprocessing of 1", "post-processing of 1"])
        // What the hook wrote are the consumer's own changes: the hooks do not see them, the replica gets them.
        #expect(try store.replicaRows("SELECT id, name FROM person") == ["1 ADA"])

        try store.write("INSERT INTO person VALUES (3, 'eve', NULL)", as: "BANNED")
        try await tracker.runOnce()
        #expect(await stages.all.count == 4)
        #expect(try store.replicaRows("SELECT id FROM person") == ["1"])
        await tracker.removeMergeHook(id: validation)
        try store.write("UPDATE person SET email = 'e@x.org' WHERE id = 3", as: "BANNED")
        try await tracker.runOnce()
        #expect(try store.replicaRows("SELECT id, name FROM person") == ["1 ADA", "3 EVE"])
    }

    // MARK: Deduplication

    @Test(arguments: [
        (UniqueIDDeduplication.Keep.oldest, "2 a"), (.newest, "3 a"), (.mergeIntoOldest, "2 a"),
    ])
    func deduplication(_ keep: UniqueIDDeduplication.Keep, _ kept: String) async throws {
        let store = try TrackedStore()
        try store.write("INSERT INTO item VALUES (1, 'a', 20, 'middle', NULL), (9, 'b', 1, 'another', NULL)")
        let tracker = store.tracker(contexts: [store.replica])
        try await tracker.runOnce()
        let deduplication = try UniqueIDDeduplication(
            store: store.path, table: "item", key: "uniqueID", keep: keep)
        await tracker.registerMergeHook { input in
            for transaction in input.transactions {
                for change in transaction.changes where change.operation == .insert {
                    try await deduplication.deduplicate(change)
                }
            }
            return .goOn
        }
        try store.write("INSERT INTO item VALUES (2, 'a', 10, NULL, 'by the widget')")
        try store.write("INSERT INTO item VALUES (3, 'a', 30, 'newest', 'by the importer')", as: "Importer")
        try store.write("INSERT INTO item VALUES (4, 'c', 5, 'alone', NULL)")
        // The second pass is for what the deduplication itself changed.
        try await tracker.runOnce()
        try await tracker.runOnce()
        let details = keep == .mergeIntoOldest ? "middle by the widget" : nil
        #expect(
            try store.rows("SELECT id, uniqueID FROM item ORDER BY uniqueID") == [kept, "9 b", "4 c"])
        if let details {
            #expect(try store.rows("SELECT title, note FROM item WHERE uniqueID = 'a'") == [details])
        }
        let all = "SELECT * FROM item ORDER BY id"
        #expect(try store.replicaRows(all) == store.rows(all))
        // It was done under its own author, so that everybody hears of it.
        #expect(
            try store.rows("SELECT count(*) > 0 FROM historyd_change WHERE origin LIKE '%Deduplication%'") == [
                "1"
            ])
    }
}

/// Rows with the same value in a column are one thing: all but one are deleted.
actor UniqueIDDeduplication {
    enum Keep: Sendable {
        case oldest, newest
        /// What the oldest lacks it gets from the others.
        case mergeIntoOldest
    }

    private let connection: DatabaseQueue
    private let table: String
    private let key: String
    private let keep: Keep

    init(store: String, table: String, key: String, keep: Keep) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.installHistory()
            try db.declareAuthor("Deduplication")
        }
        connection = try DatabaseQueue(path: store, configuration: configuration)
        self.table = table
        self.key = key
        self.keep = keep
    }

    func deduplicate(_ inserted: HistoryChange) throws {
        guard inserted.entity.name == table, case .integer(let id)? = inserted.objectID.values.first else {
            return
        }
        try connection.write { [table, key, keep] db in
            let order = keep == .newest ? "DESC" : "ASC"
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT * FROM \(table) WHERE \(key) = (SELECT \(key) FROM \(table) WHERE id = ?)
                    ORDER BY createdAt \(order), id
                    """,
                arguments: [id])
            guard rows.count > 1, let keeper = rows.first else { return }
            for duplicate in rows.dropFirst() {
                if keep == .mergeIntoOldest {
                    for column in keeper.columnNames {
                        try db.execute(
                            sql: "UPDATE \(table) SET \(column) = ? WHERE id = ? AND \(column) IS NULL",
                            arguments: [duplicate[column] as DatabaseValue, keeper["id"] as Int64])
                    }
                }
                try db.execute(sql: "DELETE FROM \(table) WHERE id = ?", arguments: [duplicate["id"] as Int64])
            }
        }
    }
}
