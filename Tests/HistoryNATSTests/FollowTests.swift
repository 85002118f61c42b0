import Foundation
import HistoryNATS
import HistoryMirrors
import Testing

private let store = "0e6c3f0e-6f43-4c1e-9d52-6f2c6a3f6a10"
private let other = "1e6c3f0e-6f43-4c1e-9d52-6f2c6a3f6a10"

private func at(_ number: Int64, _ fingerprint: String = "f") -> StreamPosition {
    StreamPosition(number: number, fingerprint: fingerprint, schema: "s")
}

private func header(
    _ kind: GroupHeader.Kind, _ number: Int64, _ fingerprint: String = "f", epoch: Int64 = 5,
    of id: String = store
) -> GroupHeader {
    GroupHeader(kind, store: id, epoch: epoch, after: at(0), through: at(number, fingerprint))
}

@Suite("How a mirror stands to its stream")
struct FollowTests {
    private enum Answer: String { case goOn, refill, awaitSnapshot, refuse }

    private static func decide(
        _ mirror: MirrorPosition?, last: GroupHeader?, head: GroupHeader?, lastSequence: UInt64 = 30
    ) -> Answer {
        switch FollowDecision(mirror, last: last, head: head, lastSequence: lastSequence, name: "contacts") {
        case .goOn: .goOn
        case .refill: .refill
        case .awaitSnapshot: .awaitSnapshot
        case .refuse: .refuse
        }
    }

    private static func mirror(_ number: Int64, epoch: Int64 = 5, sequence: UInt64 = 20) -> MirrorPosition {
        MirrorPosition(store: store, epoch: epoch, position: at(number), sequence: sequence, messageID: "a/1")
    }

    @Test("Each combination of store, epoch and position has one answer")
    func table() {
        let rows: [(what: String, last: GroupHeader?, head: GroupHeader?, answer: Answer)] = [
            ("level", header(.group, 10), nil, .goOn),
            ("behind", header(.group, 12), header(.head, 3), .goOn),
            ("ahead of all", header(.group, 8), header(.head, 3), .refuse),
            ("ahead of the stream, behind the snapshot", header(.begin, 8), header(.head, 12), .refill),
            ("nothing left, the snapshot is newer", nil, header(.head, 12), .refill),
            ("nothing left, the snapshot is the mirror", nil, header(.head, 10), .goOn),
            ("nothing left, the snapshot is older", nil, header(.head, 8), .refuse),
            ("nothing at all", nil, nil, .refuse),
            ("another transaction", header(.group, 10, "g"), header(.head, 8), .refill),
            ("another transaction, no snapshot", header(.group, 10, "g"), nil, .awaitSnapshot),
            ("a new epoch", header(.group, 4, epoch: 6), header(.head, 4, epoch: 6), .refill),
            ("a new epoch's snapshot", header(.group, 12), header(.head, 4, epoch: 6), .refill),
            ("a new epoch without its snapshot", header(.group, 4, epoch: 6), nil, .awaitSnapshot),
            ("an old epoch", header(.group, 99, epoch: 4), header(.head, 99, epoch: 4), .refuse),
            ("another store", header(.group, 10, of: other), header(.head, 10, of: other), .refuse),
            (
                "another store, a new epoch", header(.group, 4, epoch: 6, of: other),
                header(.head, 4, epoch: 6, of: other), .refill
            ),
        ]
        for row in rows {
            #expect(Self.decide(Self.mirror(10), last: row.last, head: row.head) == row.answer, "\(row.what)")
        }
        #expect(Self.decide(Self.mirror(10), last: nil, head: header(.head, 8), lastSequence: 20) == .goOn)
        #expect(Self.decide(nil, last: header(.group, 3), head: header(.head, 2)) == .refill)
        #expect(Self.decide(nil, last: header(.group, 3), head: nil) == .awaitSnapshot)
    }

    @Test("A mirror goes on only where nothing known is later than it, or of another store")
    func property() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<3000 {
            func some(_ kind: GroupHeader.Kind) -> GroupHeader? {
                guard Int.random(in: 0...4, using: &random) > 0 else { return nil }
                return header(
                    kind, .random(in: 0...6, using: &random), Bool.random(using: &random) ? "f" : "g",
                    epoch: .random(in: 1...4, using: &random), of: Bool.random(using: &random) ? store : other)
            }
            let (last, head) = (some(.group), some(.head))
            let mirror = Self.mirror(
                .random(in: 0...6, using: &random), epoch: .random(in: 1...4, using: &random),
                sequence: .random(in: 0...3, using: &random))
            let lastSequence = UInt64.random(in: 0...3, using: &random)
            let newest = [last?.epoch, head?.epoch].compactMap(\.self).max()
            switch Self.decide(mirror, last: last, head: head, lastSequence: lastSequence) {
            case .goOn:
                #expect(newest == mirror.epoch)
                if let last, last.epoch == newest {
                    #expect(last.reached.number >= mirror.position.number)
                    #expect(last.store == mirror.store && !last.reached.contradicts(mirror.position))
                } else if let head {
                    #expect(head.through.number <= mirror.position.number)
                }
            case .refill:
                #expect(head.map { FollowDecision.helps($0, mirror, isRepair: true) } ?? false)
            case .awaitSnapshot, .refuse: break
            }
        }
    }

    @Test("Repairs follow each other with pauses that grow, until a group is applied")
    func repairs() {
        var pause = RepairPause()
        var now = ContinuousClock.now
        #expect(pause.take(at: now) == .zero)
        var last: Duration = .zero
        for _ in 0..<12 {
            let wait = pause.take(at: now)
            #expect(wait > last || wait == .seconds(300))
            (last, now) = (wait, now + wait)
        }
        #expect(last == .seconds(300))
        // After a long time it is at once, too.
        #expect(pause.take(at: now + .seconds(1000)) == .zero)
        pause.applied()
        #expect(pause.take(at: now) == .zero)
    }

    @Test("A snapshot that trickles is given up; a slow network is not")
    func pace() {
        #expect(SnapshotPace.isEnough(0, in: .seconds(30)))
        #expect(!SnapshotPace.isEnough(100, in: .seconds(31)))
        #expect(SnapshotPace.isEnough(100 << 20, in: .seconds(1000)))
        #expect(!SnapshotPace.isEnough(10 << 20, in: .seconds(1000)))
    }

    @Test("What a publisher remembers is read as it was written; nonsense is not")
    func memory() throws {
        let memory = PublisherMemory(store: store, epoch: 7, position: at(3))
        let bytes = try JSONEncoder().encode(memory)
        #expect(try JSONDecoder().decode(PublisherMemory.self, from: bytes) == memory)
        for text in [
            #"{"store":"x","epoch":0,"position":"3 f s"}"#,
            #"{"store":"x","epoch":9223372036854775807,"position":"3 f s"}"#,
            #"{"store":"x","epoch":1,"position":"3"}"#, "{}", "",
        ] {
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode(PublisherMemory.self, from: Data(text.utf8))
            }
        }
    }
}
