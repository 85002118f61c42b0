import FoundationEssentials
import Testing
import TestSupport

@testable import HistoryBase
@testable import HistoryConfiguration

@Suite struct DurationTextTests {
    @Test(arguments: [
        ("500ms", Duration.milliseconds(500)), ("5s", .seconds(5)), ("3m", .seconds(180)),
        ("2h", .seconds(7200)),
        ("7d", .seconds(604_800)), ("1.5h", .seconds(5400)), ("0.1s", .milliseconds(100)),
        ("007s", .seconds(7)),
    ])
    func readsNumbersWithAUnit(text: String, expected: Duration) {
        #expect(DurationText(text)?.duration == expected)
    }

    @Test(arguments: [
        "", "5", "s", "-5s", "5 s", " 5s", "5S", "5min", "1.s", ".5s", "1.2.3s", "1e3s", "5s\n", "٣s", "infs",
    ])
    func refusesEverythingElse(text: String) {
        #expect(DurationText(text) == nil)
    }

    @Test func givesDecimalFractionsExactly() {
        #expect(DurationText.duration(seconds: 0.1) == .milliseconds(100))
        #expect(DurationText.duration(seconds: 1e300) > DurationText.longest.duration)
        #expect(DurationText.duration(seconds: -1e300) < .zero)
    }
}

@Suite struct NearestNameTests {
    private let known = ["name", "path", "entities", "authors", "unlistedAuthors", "poll"]

    @Test(arguments: [
        ("entites", "entities"), ("Path", "path"), ("pth", "path"), ("autohrs", "authors"),
        ("unlisted_authors", "unlistedAuthors"),
        ("names", "name"), ("plugins", nil), ("x", nil), ("", nil),
    ])
    func findsWhatWasMeant(name: String, expected: String?) {
        #expect(NearestName.of(name, in: known) == expected)
    }

    @Test func findsEveryNameAfterOneSlip() {
        for name in known {
            for index in name.indices {
                var slip = name
                slip.remove(at: index)
                #expect(NearestName.of(slip, in: known) == name)
            }
        }
    }

    @Test func givesUpOnAPageOfText() {
        #expect(NearestName.of(String(repeating: "a", count: 1 << 20), in: known) == nil)
    }
}

@Suite struct HookIDTests {
    /// Worked out by Python's `uuid.uuid5`.
    @Test(arguments: [
        ("audit/new-people", "F797B7A0-6535-5622-A2FC-5149AABAB2F5"),
        ("a/b", "52D2972B-0DFD-5299-947D-B5F51E97F577"),
        (
            String(repeating: "x", count: 200) + "/" + String(repeating: "y", count: 55),
            "9E018761-2BF9-56F4-81D8-787284A60F62"
        ),
    ])
    func isTheNameBasedUUID(name: String, expected: String) {
        #expect(HookID.make(fullName: name).uuidString == expected)
    }

    /// FIPS 180's examples, and each length about a block's end.
    @Test func digestsAsTheStandardDoes() {
        func hex(_ text: String) -> String {
            SHA1.digest(Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        #expect(hex("") == "da39a3ee5e6b4b0d3255bfef95601890afd80709")
        #expect(hex("abc") == "a9993e364706816aba3e25717850c26c9cd0d89d")
        #expect(
            hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")
                == "84983e441c3bd26ebaae4aa1f95129e5e54670f1")
        #expect(Set((0..<200).map { hex(String(repeating: "a", count: $0)) }).count == 200)
    }
}

@Suite struct MergeOrderTests {
    private typealias Hook = (name: String, before: String?)

    private func arrange(_ hooks: [(String, String?)]) -> [String] {
        MergeOrder.arrange(hooks, name: { $0.0 }, before: { $0.1 }).map(\.0)
    }

    @Test func keepsTheManifestsOrder() {
        #expect(arrange([("a", nil), ("b", nil), ("c", nil)]) == ["a", "b", "c"])
    }

    @Test func putsAHookDirectlyInFrontOfAnother() {
        #expect(arrange([("a", nil), ("b", nil), ("c", "b")]) == ["a", "c", "b"])
        #expect(arrange([("c", "b"), ("a", nil), ("b", nil)]) == ["a", "c", "b"])
    }

    @Test func keepsTheOrderOfSeveralInFrontOfOne() {
        #expect(arrange([("x", nil), ("a", "x"), ("b", "x"), ("c", "b")]) == ["a", "c", "b", "x"])
    }

    @Test func losesNoneWhereAReferenceLeadsNowhere() {
        #expect(arrange([("a", "gone"), ("b", "c"), ("c", "b"), ("d", nil)]) == ["a", "d", "b", "c"])
    }

    @Test func takesAChainOfAnyLength() {
        let chain = (0..<100_000).map { ("\($0)", $0 == 0 ? nil : "\($0 - 1)") }
        #expect(arrange(chain) == chain.map(\.0).reversed())
    }

    /// Whatever the references (without cycles): all are there, each is in front of its target with
    /// none between but others in front of that, and those without a reference keep their order.
    @Test(arguments: 0..<100)
    func obeysEveryReference(seed: Int) {
        var random = Seed(UInt64(seed))
        let count = Int.random(in: 1...12, using: &random)
        // Only references to smaller numbers: no cycles. Then any order in the manifest.
        var hooks: [Hook] = []
        for number in 0..<count {
            let before =
                number > 0 && Bool.random(using: &random)
                ? "\(Int.random(in: 0..<number, using: &random))" : nil
            hooks.append(("\(number)", before))
        }
        hooks.shuffle(using: &random)
        let targets = Dictionary(uniqueKeysWithValues: hooks.map { ($0.name, $0.before) })
        func leads(_ name: String, to target: String) -> Bool {
            var name: String? = name
            while let current = name, current != target { name = targets[current] ?? nil }
            return name == target
        }

        let order = MergeOrder.arrange(hooks, name: \.name, before: \.before).map(\.name)
        #expect(order.sorted() == hooks.map(\.name).sorted(), "seed \(seed)")
        #expect(
            order.filter { targets[$0] == .some(nil) } == hooks.filter { $0.before == nil }.map(\.name),
            "seed \(seed)")
        for target in targets.keys {
            let inFront = hooks.filter { $0.before == target }.map(\.name)
            #expect(order.filter { targets[$0] == target } == inFront, "seed \(seed)")
        }
        for case let (name, target?) in hooks {
            guard let from = order.firstIndex(of: name), let to = order.firstIndex(of: target) else { continue }
            #expect(from < to, "seed \(seed)")
            #expect(order[min(from, to)..<to].allSatisfy { leads($0, to: target) }, "seed \(seed)")
        }
    }
}
