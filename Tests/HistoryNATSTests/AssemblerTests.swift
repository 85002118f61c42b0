import HistoryNATS
import HistoryMirrors
import Testing

private let store = "0e6c3f0e-6f43-4c1e-9d52-6f2c6a3f6a10"

private func at(_ number: Int64, _ fingerprint: String? = "f") -> StreamPosition {
    StreamPosition(number: number, fingerprint: fingerprint, schema: "s")
}

private func mirror(_ number: Int64, epoch: Int64 = 1) -> MirrorPosition {
    MirrorPosition(store: store, epoch: epoch, position: at(number), sequence: 1, messageID: "a/1")
}

private func group(
    _ after: Int64, _ through: Int64, part: Int = 0, isLast: Bool = true, epoch: Int64 = 1
) -> GroupHeader {
    GroupHeader(
        .group, store: store, epoch: epoch, after: at(after), through: at(through), part: part, isLast: isLast)
}

private func begin(_ number: Int64, epoch: Int64 = 1, fingerprint: String? = "f") -> GroupHeader {
    let position = at(number, fingerprint)
    return GroupHeader(.begin, store: store, epoch: epoch, after: position, through: position)
}

@Suite("What a follower does with messages")
struct AssemblerTests {
    @Test("A group is applied if and only if the mirror is between its ends")
    func between() {
        for position in Int64(0)...10 {
            var assembler = GroupAssembler(position: mirror(position))
            let step = assembler.take(group(4, 8), session: "a")
            if position < 4 {
                guard case .needSnapshot = step else {
                    Issue.record("at \(position): \(step)")
                    continue
                }
            } else {
                #expect(step == (position < 8 ? .apply : .ignore))
            }
        }
    }

    @Test("Parts of a group that was not finished are void, whatever follows")
    func void() {
        var assembler = GroupAssembler(position: mirror(4))
        #expect(assembler.take(group(4, 8, isLast: false), session: "a") == .keep(isFirst: true))
        #expect(assembler.take(group(4, 8, part: 1, isLast: false), session: "a") == .keep(isFirst: false))
        #expect(assembler.take(begin(4), session: "b") == .ignore)
        // A part of the first session, late.
        #expect(assembler.take(group(4, 8, part: 2), session: "a") == .ignore)
        // One whose beginning is missing.
        #expect(assembler.take(group(4, 9, part: 1, isLast: false), session: "b") == .ignore)
        #expect(assembler.take(group(4, 9, isLast: false), session: "b") == .keep(isFirst: true))
        #expect(assembler.take(group(4, 9, part: 1), session: "b") == .apply)
    }

    @Test("A group of which a part is missing, or comes twice, is not applied")
    func parts() {
        for second in [0, 2, 1, 3] {
            var assembler = GroupAssembler(position: mirror(4))
            #expect(assembler.take(group(4, 8, isLast: false), session: "a") == .keep(isFirst: true))
            #expect(assembler.take(group(4, 8, part: 1, isLast: false), session: "a") == .keep(isFirst: false))
            let step = assembler.take(group(4, 8, part: second), session: "a")
            #expect((step == .apply) == (second == 0 || second == 2), "part \(second)")
        }
    }

    @Test("A gap, another epoch, another store and another transaction lead to a snapshot")
    func snapshots() {
        let others = [
            begin(5), begin(4, epoch: 2), group(4, 8, epoch: 2), begin(4, fingerprint: "g"),
            GroupHeader(
                .begin, store: "1e6c3f0e-6f43-4c1e-9d52-6f2c6a3f6a10", epoch: 1, after: at(4), through: at(4)),
            GroupHeader(.group, store: store, epoch: 1, after: at(4, "g"), through: at(8)),
        ]
        for header in others {
            var assembler = GroupAssembler(position: mirror(4))
            guard case .needSnapshot = assembler.take(header, session: "a") else {
                Issue.record("\(header)")
                continue
            }
        }
        var assembler = GroupAssembler(position: mirror(4, epoch: 3))
        #expect(assembler.take(group(1, 9, epoch: 2), session: "a") == .ignore)
        assembler = GroupAssembler(position: nil)
        guard case .needSnapshot = assembler.take(begin(0), session: "a") else {
            Issue.record("A new mirror needs a snapshot")
            return
        }
    }

    @Test("Headers are read as they are written; what is not ours is nothing")
    func headers() throws {
        let head = GroupHeader.SnapshotHead(
            firstSequence: 7, parts: 2, bytes: 600_000, digest: String(repeating: "a", count: 64), time: 5,
            kept: [1, 7])
        for header in [
            begin(0, fingerprint: nil), group(1, 2, part: 3, isLast: false),
            GroupHeader(.head, store: store, epoch: 9, after: at(0), through: at(12), head: head),
        ] {
            let fields = Dictionary(uniqueKeysWithValues: header.fields.map { ($0.name, $0.value) })
            #expect(try GroupHeader { fields[$0] } == header)
            for name in fields.keys where name != "Historyd-Last" && name != "Historyd-Kept" {
                #expect(throws: ForeignMessage.self, "\(name)") {
                    try GroupHeader { $0 == name ? "?" : fields[$0] }
                }
            }
        }
        #expect(throws: ForeignMessage.self) { try GroupHeader { _ in nil } }
    }

    @Test("Whatever stands in headers is a message or none, in bounds; nothing traps")
    func foreignHeaders() throws {
        let head = GroupHeader.SnapshotHead(
            firstSequence: 7, parts: 2, bytes: 600_000, digest: String(repeating: "a", count: 64), time: 5,
            kept: [1, 7])
        let good = GroupHeader(.head, store: store, epoch: 9, after: at(0), through: at(12), head: head)
        let values = [
            "", "-1", "0", "1", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
            "99999999999999999999",
            "1e9", "\u{0}", "é", "0 - -", "9223372036854775807 f s", "4611686018427387904 f s", "5", "begin",
            "group",
            "snapshot", "head", "1 2 3 4", String(repeating: "9", count: 500),
            String(repeating: "1 ", count: 500),
        ]
        var random = SystemRandomNumberGenerator()
        let now: Int64 = 1_000_000
        for _ in 0..<2000 {
            var fields = Dictionary(uniqueKeysWithValues: good.fields.map { ($0.name, $0.value) })
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                guard let name = fields.keys.sorted().randomElement(using: &random) else { break }
                fields[name] = Bool.random(using: &random) ? values.randomElement(using: &random) : nil
            }
            guard let header = try? GroupHeader(at: now, { fields[$0] }) else { continue }
            #expect(Epoch.next(after: header.epoch, at: now) > header.epoch)
            #expect(header.head?.kept.count ?? 0 <= 100)
            var assembler = GroupAssembler(position: mirror(4))
            _ = assembler.take(header, session: "a")
            for known in [nil, header] {
                _ = FollowDecision(mirror(4), last: header, head: known, lastSequence: 3, name: "n")
                _ = PublishDecision(.init(last: header, head: known, memory: nil), at: now) { _, _ in .restored
                }
            }
        }
    }

    @Test("A message that is not chained to the one before it is somebody else's")
    func chained() {
        #expect(begin(4).fits("a/0", behind: nil) && begin(4).fits("a/0", behind: "b/7"))
        #expect(group(4, 8).fits("a/2", behind: "a/1") && group(4, 8).fits("a/2", behind: nil))
        // Behind a snapshot in the midst of a session.
        #expect(begin(4).fits("a/2", behind: "a/1") && begin(4).fits("a/2", behind: nil))
        for (header, id, before) in [
            (begin(4), "a/2", "a/0"), (begin(4), "a/1", "b/0"), (begin(4), "", nil), (begin(4), "a/b", "a/0"),
            (group(4, 8), "a/2", "a/0"),
            (group(4, 8), "a/2", "b/1"), (group(4, 8), "a/0", nil), (group(4, 8), "a/1", ""),
            (group(4, 8), "a/-1", "a/-2"), (group(4, 8), "a/9223372036854775807", "a/9223372036854775806"),
        ] as [(GroupHeader, String, String?)] {
            #expect(!header.fits(id, behind: before), "\(id) behind \(before ?? "nothing")")
        }
    }

    @Test("Of a group whose beginning the stream has lost, the rest is no reason to wait")
    func trimmed() {
        // Behind the mirror's position.
        var assembler = GroupAssembler(position: mirror(4))
        guard case .needSnapshot = assembler.take(group(6, 8, part: 3, isLast: false), session: "a") else {
            Issue.record("The gap is not noticed")
            return
        }
        // At it: what is there may be void, until the last part proves that it is not.
        assembler = GroupAssembler(position: mirror(4))
        #expect(assembler.take(group(4, 8, part: 3, isLast: false), session: "a") == .ignore)
        guard case .needSnapshot = assembler.take(group(4, 8, part: 4), session: "a") else {
            Issue.record("The group's lost beginning is not noticed")
            return
        }
        // The mirror has it.
        assembler = GroupAssembler(position: mirror(8))
        #expect(assembler.take(group(4, 8, part: 4), session: "a") == .ignore)
    }

    @Test("The place in a stream is found by content, also among groups that were never finished")
    func search() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            // A stream of groups, begins and void groups; where each group's first part stands.
            var stream: [GroupHeader] = []
            var starts: [(after: Int64, place: Int)] = []
            var number: Int64 = 0
            for _ in 0..<Int.random(in: 1...20, using: &random) {
                switch Int.random(in: 0...3, using: &random) {
                case 0: stream.append(begin(number))
                case 1:
                    stream.append(group(number, number + 50, isLast: false))
                    stream.append(begin(number))
                default:
                    starts.append((number, stream.count))
                    let through = number + Int64.random(in: 1...9, using: &random)
                    stream.append(group(number, through, isLast: false))
                    stream.append(group(number, through, part: 1))
                    number = through
                }
            }
            guard !stream.isEmpty else { continue }
            // Among messages of somebody else.
            var mixed: [GroupHeader?] = []
            for header in stream {
                if Bool.random(using: &random) {
                    mixed += Array(repeating: nil, count: .random(in: 1...9, using: &random))
                }
                mixed.append(header)
            }
            for start in starts {
                let found = StreamSearch.start(in: 1...UInt64(mixed.count), for: mirror(start.after)) {
                    mixed[Int($0) - 1]
                }
                #expect(mixed[..<Int(found - 1)].compactMap(\.self).count <= start.place)
            }
            for start in starts {
                let found = StreamSearch.start(in: 1...UInt64(stream.count), for: mirror(start.after)) {
                    stream[Int($0) - 1]
                }
                #expect(found <= UInt64(start.place + 1))
            }
            let end = StreamSearch.start(in: 1...UInt64(stream.count), for: mirror(number + 100)) {
                stream[Int($0) - 1]
            }
            #expect(end == UInt64(stream.count + 1))
        }
    }

    @Test("The sequence is read from the reply subjects of older and newer servers")
    func sequences() throws {
        for reply in ["$JS.ACK.S.c.1.42.3.1700000000.5", "$JS.ACK._.hash.S.c.1.42.3.1700000000.5.random"] {
            let (sequence, pending) = try #require(StreamSearch.sequence(inReply: reply))
            #expect(sequence == 42 && pending == 5)
        }
        #expect(StreamSearch.sequence(inReply: "inbox.1") == nil)
    }
}
