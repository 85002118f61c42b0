import HistoryNATS
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

    @Test("It goes on behind the last group that is whole")
    func goesOn() {
        for (header, number) in [(Self.header(.group), Int64(5)), (Self.header(.group, isLast: false), 3)] {
            let decision = PublishDecision(last: header, head: nil) { position, _ in
                #expect(position.number == number)
                return nil
            }
            #expect(decision == .goOn(epoch: 2, after: header.reached))
        }
    }

    @Test("What was restored gets a new epoch; what diverged, or is another store, waits for an operator")
    func losses() {
        func decide(_ loss: SourceLoss?, wantsNewEpoch: Bool = false, head: GroupHeader? = nil)
            -> PublishDecision
        {
            PublishDecision(last: Self.header(.group), head: head, wantsNewEpoch: wantsNewEpoch) { _, _ in loss
            }
        }
        func epoch(_ decision: PublishDecision) -> Int64? {
            if case .startOver(let epoch, _) = decision { epoch } else { nil }
        }
        #expect(epoch(decide(.restored)) == 3)
        #expect(epoch(decide(.expired)) == 2)
        for loss in [SourceLoss.diverged, .otherStore] {
            guard case .refuse = decide(loss) else {
                Issue.record("\(loss) is not refused")
                continue
            }
            #expect(epoch(decide(loss, wantsNewEpoch: true)) == 3)
        }
        #expect(epoch(decide(nil, wantsNewEpoch: true, head: Self.header(.head, epoch: 7))) == 8)
    }

    @Test("A stream whose messages have all expired goes on from a snapshot, in its epoch")
    func empty() {
        let new = PublishDecision(last: nil, head: nil) { _, _ in nil }
        #expect(new == .startOver(epoch: 1, reason: "the stream is new"))
        let known = PublishDecision(last: nil, head: Self.header(.head)) { _, _ in nil }
        #expect(known == .startOver(epoch: 2, reason: "the stream has no messages left"))
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
            let sum = SnapshotDigest()
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
        let authors = ["a.b", "a b", "a>b", "*", "_many", "_none", "=5Fmany", "é", "a=b"]
        let subjects = Set(authors.map { name.group(of: [$0]) })
        #expect(subjects.count == authors.count)
        for subject in subjects {
            let tokens = subject.split(separator: ".", omittingEmptySubsequences: false)
            #expect(tokens.count == 3 && !tokens[2].contains { " *>".contains($0) })
        }
        #expect(StreamName.escaped("_many") == "=5Fmany")
    }
}
