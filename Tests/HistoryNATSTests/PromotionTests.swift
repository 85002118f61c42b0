import Foundation
import GRDB
import HistoryNATS
import TestSupport
import Testing

@testable import HistoryMirrors
@testable import PersistentHistory

@Suite("Promoting a mirror")
struct PromotionTests {
    private static let position = StreamPosition(number: 5, fingerprint: "f", schema: "s")

    private static func header(epoch: Int64, promotion: Int64?) -> GroupHeader {
        var header = GroupHeader(
            .begin, store: "a5e3d0d6-6f43-4c1e-9d52-6f2c6a3f6a10", epoch: epoch, after: position,
            through: position)
        header.source.promotion = promotion
        return header
    }

    private enum Expected: Equatable { case goOn, startOver, retire, refuse }

    /// What a publisher does whose store has this mark, where the stream ends with a message of an epoch and a
    /// mark, and the newest snapshot has others.
    private static func decision(
        of mark: Int64?, last: (Int64, Int64?), head: (Int64, Int64?)? = nil, loss: SourceLoss? = nil,
        newEpoch: Bool = false
    ) -> Expected {
        let decision = PublishDecision(
            .init(
                last: header(epoch: last.0, promotion: last.1),
                head: head.map { header(epoch: $0.0, promotion: $0.1) }, memory: nil),
            of: .init(promotion: mark), at: 100, wantsNewEpoch: newEpoch
        ) { _, _ in loss }
        switch decision {
        case .goOn: return .goOn
        case .startOver: return .startOver
        case .retire: return .retire
        case .refuse: return .refuse
        }
    }

    @Test("Only the store that was promoted last continues the stream")
    func decisions() {
        // The old source, whether it has less, the same or more than the mirror had.
        for loss in [nil, .restored, .diverged] as [SourceLoss?] {
            #expect(Self.decision(of: nil, last: (30, 30), loss: loss) == .retire)
            #expect(Self.decision(of: 20, last: (30, 30), loss: loss) == .retire)
            // Only the snapshot of the promoted store is there yet.
            #expect(Self.decision(of: nil, last: (20, nil), head: (30, 30), loss: loss) == .retire)
        }
        #expect(Self.decision(of: nil, last: (30, 30), newEpoch: true) == .startOver)
        // The promoted store, for the first time, after its snapshot, and later.
        for loss in [nil, .restored, .diverged] as [SourceLoss?] {
            #expect(Self.decision(of: 30, last: (20, nil), loss: loss) == .startOver)
            #expect(Self.decision(of: 30, last: (20, 10), loss: loss) == .startOver)
            #expect(Self.decision(of: 30, last: (20, nil), head: (30, 30), loss: loss) == .startOver)
        }
        #expect(Self.decision(of: 30, last: (20, nil), loss: .otherStore) == .refuse)
        // Behind the fence that promoting has put there.
        #expect(Self.decision(of: 30, last: (30, 30)) == .startOver)
        #expect(Self.decision(of: 30, last: (31, 30)) == .goOn)
        #expect(Self.decision(of: 30, last: (40, 30)) == .goOn)
        #expect(Self.decision(of: 30, last: (40, 30), loss: .diverged) == .refuse)
        // An operator has declared the old source to be right.
        #expect(Self.decision(of: 30, last: (40, nil)) == .retire)
    }

    @Test("The mark is in the headers")
    func headers() throws {
        let header = Self.header(epoch: 30, promotion: 30)
        let fields = Dictionary(uniqueKeysWithValues: header.fields.map { ($0.name, $0.value) })
        #expect(try GroupHeader { fields[$0] } == header)
    }

    @Test(
        "A promoted mirror goes on with the source's numbers and tokens, records, and its history can be read over its gaps"
    )
    func promote() throws {
        let folder = try TemporaryFolder()
        let (store, path) = (folder.file("source.sqlite"), folder.file("mirror.sqlite"))
        let writer = try DatabaseQueue(path: store)
        func write(_ sql: String, to queue: DatabaseQueue) throws {
            try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        }
        try write(
            """
            CREATE TABLE person (id INTEGER PRIMARY KEY, name); CREATE TABLE loose (a, b);
            CREATE INDEX person_name ON person (name);
            """, to: writer)
        try Tracking.track(store, ["person": ["name"], "loose": nil])
        try write(
            "INSERT INTO person VALUES (1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO loose VALUES (1, 2)",
            to: writer)
        let source = try MirrorSource(store, spoolingIn: folder.path)
        let mirror = try Mirror(path, of: "test")
        let group = try source.snapshot()
        try mirror.apply(
            group.body.chunks(), isSnapshot: true,
            to: MirrorPosition(
                store: group.store, epoch: 7, position: group.through, sequence: 0, messageID: ""))
        let end = group.through.number
        #expect(try source.promotion() == nil)
        // As after a cleaning that kept an author's changes.
        try write("DELETE FROM historyd_change WHERE id = 2", to: DatabaseQueue(path: path))
        try mirror.promote(in: 30)

        let promoted = try DatabaseQueue(path: path)
        try write("UPDATE person SET name = 'z' WHERE id = 2; INSERT INTO loose VALUES (3, 4)", to: promoted)
        let new = try MirrorSource(path, spoolingIn: folder.path)
        #expect(try new.promotion() == 30 && new.end().store == group.store)
        #expect(try new.end().position.number == end + 2)
        let changes = try promoted.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT id, name, kind & 3, tracked FROM historyd_change JOIN historyd_entity ON shape = kind >> 2
                    WHERE id > 2 ORDER BY id
                    """
            ).map { "\($0[0] as Int64) \($0[1] as String) \($0[2] as Int64) \($0[3] as Int64)" }
        }
        #expect(changes == ["3 person 0 0", "4 loose 0 0", "5 person 1 1", "6 loose 0 1"])
        let (objects, floor) = try promoted.read { db in
            (
                try String.fetchAll(
                    db,
                    sql:
                        "SELECT name FROM sqlite_schema WHERE name LIKE 'historyd_mirror%' OR name = 'historyd_object'"
                ), try Int64.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'floor'")
            )
        }
        #expect(objects == [] && floor == 2)
        // What came after the gap can be read, and the preserved columns are preserved.
        let token = HistoryToken(store: try #require(StoreID(group.store)), number: 2)
        let reader = try HistoryReader(path: path)
        try reader.check(after: token)
        #expect(try reader.batch(after: 0).end == end + 2)
        try write("DELETE FROM person WHERE id = 2", to: promoted)
        let detail = try promoted.read { db in
            try String.fetchOne(db, sql: "SELECT detail FROM historyd_change ORDER BY id DESC LIMIT 1")
        }
        #expect(detail?.contains("z") ?? false)
        #expect(try Tracking.refresh(path).isEmpty)
        #expect(throws: HistoryError.self) { try Mirror(path, of: "test") }
    }
}
