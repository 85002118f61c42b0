import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// State files of other versions.
@Suite struct StateMigrationTests {
    private static let store = StoreID.sample()

    /// A file that a daemon wrote before there were versions: its consumer "Main" has a replica, a feed, a merge hook
    /// that rejected transaction 2 and dead letters; "Widget" has lost history, and its hook refuses to be told.
    private static let unversioned = """
        CREATE TABLE cursor (
            consumer TEXT PRIMARY KEY, number INTEGER NOT NULL, moved_at INTEGER NOT NULL,
            served INTEGER NOT NULL, mark TEXT) WITHOUT ROWID;
        INSERT INTO cursor VALUES('Main',8,1795303373294,19452,'5919bc6.1	25528	1795303373205	Other');
        INSERT INTO cursor VALUES('Widget',5,1795303338499,11170,NULL);
        CREATE TABLE served (id INTEGER PRIMARY KEY CHECK (id = 1), milliseconds INTEGER NOT NULL);
        INSERT INTO served VALUES(1,12645);
        CREATE TABLE expiry (
            consumer TEXT PRIMARY KEY, reason TEXT NOT NULL, lost INTEGER, begins_after INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO expiry VALUES('Widget','expired',0,5);
        CREATE TABLE replica (
            consumer TEXT, context TEXT, path TEXT, refill INTEGER NOT NULL, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        INSERT INTO replica VALUES('Main','view','/srv/view.sqlite',0);
        CREATE TABLE filled (
            consumer TEXT, context TEXT, number INTEGER NOT NULL, mark TEXT, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        INSERT INTO filled VALUES('Main','view',7,'d7d1c68d.1	25299	1795303357836	Other');
        CREATE TABLE fetched (consumer TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO fetched VALUES('Main',8);
        CREATE TABLE cleaning (
            id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL, passes INTEGER NOT NULL);
        INSERT INTO cleaning VALUES(1,1795303339981,2);
        CREATE TABLE dead_letter (
            id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, hook TEXT NOT NULL,
            delivery TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
            call TEXT NOT NULL, kept_at INTEGER NOT NULL);
        INSERT INTO dead_letter VALUES(2,'Main','p/h','2398ea9c-2bd3-4b01-aa8b-92f9d5e0951f:2/Main/p/h/0','Plugin "p" answered with an error: no',1,'{"store":"s","consumer":"Main","hook":"p/h","hookID":"8CCDFF7D-4E0A-5FBB-86B0-FBD70371D202","delivery":"2398ea9c-2bd3-4b01-aa8b-92f9d5e0951f:2/Main/p/h/0","transaction":{"token":"2398ea9c-2bd3-4b01-aa8b-92f9d5e0951f:2","author":"Bad","context":null,"processID":24432,"timestamp":"2026-11-21T23:21:47.505Z"},"contexts":[{"entityName":"item","operation":"insert","objectID":{"id":2},"objectIDURL":"x-history://2398ea9c-2bd3-4b01-aa8b-92f9d5e0951f/item/p2","timestamp":"2026-11-21T23:21:47.505Z","author":"Bad"}]}',1795303307513);
        CREATE TABLE feed (
            consumer TEXT, context TEXT, number INTEGER NOT NULL, moved_at INTEGER NOT NULL,
            served INTEGER NOT NULL, reason TEXT, lost INTEGER, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        INSERT INTO feed VALUES('Main','live',0,1795303305688,38,NULL,NULL);
        INSERT INTO feed VALUES('Main','lost',5,1795303305688,38,'expired',0);
        CREATE TABLE unmerged (
            consumer TEXT, first INTEGER, last INTEGER NOT NULL, PRIMARY KEY (consumer, first)) WITHOUT ROWID;
        INSERT INTO unmerged VALUES('Main',2,2);
        DELETE FROM sqlite_sequence;
        INSERT INTO sqlite_sequence VALUES('dead_letter',7);
        CREATE INDEX dead_letter_delivery ON dead_letter (delivery);
        """

    private let folder: TemporaryFolder
    private var path: String { StateDatabase.path(folder: folder.path, store: Self.store) }

    init() throws { folder = try TemporaryFolder() }

    private func write(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA journal_mode = WAL; " + sql) }
        try queue.close()
    }

    private func withState<T>(_ body: (StateDatabase) throws -> T) throws -> T {
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        defer { try? state.close() }
        return try body(state)
    }

    @Test("A state without a version is taken over as a whole")
    func unversioned() throws {
        try write(Self.unversioned)
        // Twice: what was migrated stays as it is.
        for _ in 1...2 { try withState(expectTakenOver) }
    }

    private func expectTakenOver(_ state: StateDatabase) throws {
        #expect(!state.isNew)
        #expect(state.served >= .milliseconds(19452))
        let main = Checkpoint(
            position: 8, fingerprint: "5919bc6.1\t25528\t1795303373205\tOther",
            movedAt: HistoryTimestamp(milliseconds: 1_795_303_373_294), movedAtServed: .milliseconds(19452))
        let widget = Checkpoint(
            position: 5, movedAt: HistoryTimestamp(milliseconds: 1_795_303_338_499),
            movedAtServed: .milliseconds(11170))
        #expect(try state.cursors.all() == ["Main": main, "Widget": widget])
        #expect(try state.cursors.batchEnd(of: "Main") == 8)
        #expect(try state.cursors.batchEnd(of: "Widget") == 0)
        #expect(try state.cursors.expiry(of: "Main", store: Self.store) == nil)
        let expiry = Expiry(
            reason: .expired, lost: HistoryToken(store: Self.store, number: 0),
            after: HistoryToken(store: Self.store, number: 5))
        #expect(try state.cursors.expiry(of: "Widget", store: Self.store) == expiry)

        func feed(_ position: Int64) -> Checkpoint {
            Checkpoint(
                position: position, movedAt: HistoryTimestamp(milliseconds: 1_795_303_305_688),
                movedAtServed: .milliseconds(38))
        }
        #expect(
            try state.feeds.all() == [
                FeedID(consumer: "Main", context: "live"): FeedState(checkpoint: feed(0), expiry: nil),
                FeedID(consumer: "Main", context: "lost"): FeedState(checkpoint: feed(5), expiry: expiry),
            ])
        #expect(try state.feeds.unmerged(of: "Main", after: 0, through: 8) == [2...2])

        let known = try state.replicas.known("view", of: "Main", at: "/srv/view.sqlite")
        #expect(known.isHere && !known.needsFilling)
        #expect(known.filling?.position == 7)
        #expect(known.filling?.fingerprint == "d7d1c68d.1\t25299\t1795303357836\tOther")

        #expect(try state.deadLetters.all().map(\.number) == [2])
        let letter = try #require(try state.deadLetters.all().first).letter
        #expect(letter.hook == "p/h" && letter.attempts == 1 && letter.call.hasPrefix(#"{"store":"s""#))
        let cleaning = try state.cleaning()
        #expect(cleaning.at == HistoryTimestamp(milliseconds: 1_795_303_339_981) && cleaning.notifications == 2)
    }

    @Test("Numbers of dead letters that were dropped before are not given again")
    func deadLetterNumbers() throws {
        try write(Self.unversioned)
        try withState { state in
            try state.deadLetters.keep(
                DeadLetter(
                    consumer: "Main", hook: "p/h", delivery: "d", reason: "", attempts: 1, call: "{}",
                    keptAt: .now))
            #expect(try state.deadLetters.all().map(\.number) == [2, 8])
        }
    }

    @Test("A state that was taken over has the schema of a new one, however little was in it")
    func schema() throws {
        func schema() throws -> [String] {
            try withState { _ in }
            return try GatekeeperStore.read(path) { db in
                try String.fetchAll(
                    db, sql: "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
            }
        }
        let new = try schema()
        #expect(new.count == 9)
        let words = { (sql: String) in sql.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
        for old in [
            Self.unversioned,
            "CREATE TABLE cursor (consumer TEXT PRIMARY KEY, number, moved_at, served, mark) WITHOUT ROWID",
        ] {
            for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
            try write(old)
            #expect(try schema().map(words) == new.map(words))
        }
    }

    @Test("A state of a newer version is refused and left as it is")
    func newer() throws {
        try withState { try $0.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main") }
        try write("PRAGMA user_version = \(StateSchema.version + 1)")
        let error = #expect(throws: HistoryError.self) { try withState { _ in } }
        #expect(error?.code == .stateUnusable)
        #expect(error?.message.contains("newer program") == true)
        try write("PRAGMA user_version = \(StateSchema.version)")
        #expect(try withState { try $0.cursors.checkpoint(of: "Main")?.position } == 3)
    }

    @Test("Where the take-over fails, the old state is left as it was")
    func failure() throws {
        // A view in the way of a table.
        try write(Self.unversioned + "CREATE VIEW service AS SELECT 1;")
        let error = #expect(throws: HistoryError.self) { try withState { _ in } }
        #expect(error?.code == .stateUnusable)
        try write("DROP VIEW service")
        try withState(expectTakenOver)
    }
}
