import HistoryNATS
import HistoryMirrors
import PersistentHistory
import Testing

private let store = "0e6c3f0e-6f43-4c1e-9d52-6f2c6a3f6a10"

@Suite("How a publisher goes on")
struct DecisionTests {
    private static func header(_ kind: GroupHeader.Kind, isLast: Bool = true, epoch: Int64 = 2) -> GroupHeader {
        GroupHeader(
            kind, store: store, epoch: epoch, after: StreamPosition(number: 3, fingerprint: "a", schema: "s"),
            through: StreamPosition(number: 5, fingerprint: "b", schema: "s"), isLast: isLast)
    }

    private static func memory(epoch: Int64, number: Int64 = 5) -> PublisherMemory {
        PublisherMemory(
            store: store, epoch: epoch, position: StreamPosition(number: number, fingerprint: "m", schema: "s"))
    }

    private static func decide(
        last: GroupHeader? = header(.group), head: GroupHeader? = nil, memory: PublisherMemory? = nil,
        at now: Int64 = 0, wantsNewEpoch: Bool = false,
        loss: (StreamPosition, String) -> SourceLoss? = { _, _ in nil }
    ) -> PublishDecision {
        PublishDecision(
            .init(last: last, head: head, memory: memory), at: now, wantsNewEpoch: wantsNewEpoch, loss: loss)
    }

    private static func epoch(_ decision: PublishDecision) -> Int64? {
        switch decision {
        case .startOver(let epoch, _), .goOn(let epoch, _): epoch
        case .refuse, .retire: nil
        }
    }

    private static func isRefusal(_ decision: PublishDecision) -> Bool {
        if case .refuse = decision { true } else { false }
    }

    @Test("It goes on behind the last group that is whole")
    func goesOn() {
        for (header, number) in [(Self.header(.group), Int64(5)), (Self.header(.group, isLast: false), 3)] {
            let decision = Self.decide(last: header) { position, _ in
                #expect(position.number == number)
                return nil
            }
            #expect(decision == .goOn(epoch: 2, after: header.reached))
        }
    }

    @Test("What was restored gets a new epoch; what diverged, or is another store, waits for an operator")
    func losses() {
        #expect(Self.epoch(Self.decide { _, _ in .restored }) == 3)
        #expect(Self.epoch(Self.decide(at: 1000) { _, _ in .restored }) == 1000)
        #expect(Self.epoch(Self.decide { _, _ in .expired }) == 2)
        for loss in [SourceLoss.diverged, .otherStore] {
            #expect(Self.isRefusal(Self.decide { _, _ in loss }))
            #expect(Self.epoch(Self.decide(wantsNewEpoch: true) { _, _ in loss }) == 3)
            // Also where the streams are gone, and the publisher remembers them.
            #expect(Self.isRefusal(Self.decide(last: nil, memory: Self.memory(epoch: 7)) { _, _ in loss }))
        }
        #expect(Self.epoch(Self.decide(head: Self.header(.head, epoch: 7), wantsNewEpoch: true)) == 8)
    }

    @Test("A stream whose messages have all expired goes on from a snapshot, in its epoch")
    func empty() {
        let new = Self.decide(last: nil, at: 77)
        #expect(new == .startOver(epoch: 77, reason: "the stream is new"))
        let known = Self.decide(last: nil, head: Self.header(.head))
        #expect(known == .startOver(epoch: 2, reason: "the stream has no messages left"))
    }

    @Test("A server that was set back behind the store's own restoring does not hide it")
    func setBack() {
        // The stream ends where the store goes on, and it had more, that the store has not.
        let decision = Self.decide(memory: Self.memory(epoch: 2, number: 9)) { position, _ in
            position.number > 8 ? .restored : nil
        }
        #expect(Self.epoch(decision) == 3)
        #expect(
            Self.isRefusal(
                Self.decide(memory: Self.memory(epoch: 2)) { position, _ in
                    position.fingerprint == "m" ? .diverged : nil
                }))
    }

    @Test("No decision begins or continues an epoch below one that is known, and --new-epoch is always obeyed")
    func neverBelow() {
        var random = SystemRandomNumberGenerator()
        let losses: [SourceLoss?] = [nil, .otherStore, .restored, .diverged, .expired, .gap, .schemaUnknown]
        for _ in 0..<2000 {
            let now = Int64.random(in: 0...10, using: &random)
            func some() -> Int64? { Bool.random(using: &random) ? .random(in: 1...8, using: &random) : nil }
            let (last, head, memory) = (some(), some(), some())
            let wantsNewEpoch = Bool.random(using: &random)
            let answers = (
                losses.randomElement(using: &random) ?? nil, losses.randomElement(using: &random) ?? nil
            )
            let decision = Self.decide(
                last: last.map { Self.header(.group, epoch: $0) },
                head: head.map { Self.header(.head, epoch: $0) },
                memory: memory.map { Self.memory(epoch: $0) }, at: now, wantsNewEpoch: wantsNewEpoch
            ) { position, _ in position.fingerprint == "m" ? answers.1 : answers.0 }
            let known = [last, head, memory].compactMap(\.self).max() ?? 0
            if let epoch = Self.epoch(decision) {
                #expect(epoch >= known, "\(decision)")
            }
            if wantsNewEpoch { #expect(Self.epoch(decision) == max(known + 1, now)) }
            if case .goOn(let epoch, _) = decision { #expect(epoch == last) }
        }
    }

    @Test("Nothing is released before it was held for as long as was asked for, and all of it afterwards")
    func release() throws {
        var release = FeedRelease(hold: .seconds(100))
        let start = ContinuousClock.now
        for second in 0..<1000 {
            let now = start + .seconds(second)
            release.acknowledged(through: Int64(second), at: now)
            let through = release.through(at: now)
            #expect(through ?? .min <= Int64(second - 100))
            if second > 110 { #expect(try #require(through) >= Int64(second - 103)) }
        }
        // What a server has lost is not released.
        var setBack = FeedRelease(hold: .seconds(100))
        setBack.acknowledged(through: 10, at: start)
        setBack.acknowledged(through: 5, at: start + .seconds(50))
        #expect(setBack.through(at: start + .seconds(100)) == nil)
        #expect(setBack.through(at: start + .seconds(150)) == 5)
        release.acknowledged(through: 950, at: start + .seconds(1000))
        #expect(release.through(at: start + .seconds(1150)) == 950)
        #expect(release.next == nil)
        // A server that was set back has lost what was released, too.
        release.acknowledged(through: 900, at: start + .seconds(1151))
        #expect(release.through(at: start + .seconds(1151)) == 900)
    }

    @Test("A snapshot is taken if and only if its bytes and its digest are those that its head says")
    func snapshotDigest() {
        func matches(_ parts: [String], bytes: Int, digest: String) -> Bool {
            let sum = SHA256()
            for part in parts { Array(part.utf8).withUnsafeBytes { sum.update($0) } }
            return sum.matches(
                .init(firstSequence: 1, parts: parts.count, bytes: bytes, digest: digest, time: 0, kept: []))
        }
        // Of "abc" (https://csrc.nist.gov/projects/cryptographic-standards-and-guidelines/example-values).
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(matches(["a", "bc"], bytes: 3, digest: digest))
        #expect(!matches(["a", "bd"], bytes: 3, digest: digest))
        #expect(!matches(["a", "bc"], bytes: 4, digest: digest))
        #expect(!matches([], bytes: 0, digest: digest))
    }

    @Test("Subjects hold nothing that a subject cannot, and no two authors share one")
    func subjects() {
        let name = StreamName("contacts")
        #expect(name.group(of: ["App"]) == "history.contacts.App")
        #expect(name.group(of: ["App", nil]) == "history.contacts._many")
        #expect(name.group(of: [nil]) == "history.contacts._none")
        let authors: [BinaryText] = [
            "a.b", "a b", "a>b", "*", "_many", "_none", "=5Fmany", "\u{e9}", "e\u{301}", "a=b",
        ]
        let subjects = Set(authors.map { name.group(of: [$0]) })
        #expect(subjects.count == authors.count)
        for subject in subjects {
            let tokens = subject.split(separator: ".", omittingEmptySubsequences: false)
            #expect(tokens.count == 3 && !tokens[2].contains { " *>".contains($0) })
        }
        #expect(StreamName.escaped("_many") == "=5Fmany")
    }
}
