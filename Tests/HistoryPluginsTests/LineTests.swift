import PersistentHistory
import TestSupport
import Testing

@testable import HistoryPlugins

@Suite struct LineSplitterTests {
    /// Lines come out as they went in, wherever the chunks end; of a long one only the start.
    @Test func anyChunks() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SplitMix(state: seed)
        for _ in 0..<100 {
            let limit = Int.random(in: 1..<12, using: &generator)
            let lines = (0..<Int.random(in: 0..<8, using: &generator)).map { _ in
                (0..<Int.random(in: 0..<20, using: &generator)).map { _ in
                    UInt8.random(in: 65...90, using: &generator)
                }
            }
            var splitter = LineSplitter(limit: limit)
            var found: [[UInt8]] = []
            var cut: [Bool] = []
            var bytes = Array(lines.map { $0 + [10] }.joined())[...]
            while !bytes.isEmpty {
                let count = Int.random(in: 1...bytes.count, using: &generator)
                var chunk = bytes.prefix(count)
                while let (line, isCut) = splitter.next(&chunk) {
                    found.append(Array(line))
                    cut.append(isCut)
                }
                bytes = bytes.dropFirst(count)
            }
            #expect(found == lines.map { Array($0.prefix(limit)) }, "seed \(seed)")
            #expect(cut == lines.map { $0.count > limit }, "seed \(seed)")
        }
    }

    @Test func aLineWithoutEnd() {
        var splitter = LineSplitter(limit: 3)
        var found: [String] = []
        func keep(_ next: (line: ArraySlice<UInt8>, isCut: Bool)?) {
            if let next { found.append(String(decoding: next.line, as: UTF8.self) + (next.isCut ? "…" : "")) }
        }
        var chunk = Array("a\nbcd".utf8)[...]
        keep(splitter.next(&chunk))
        keep(splitter.next(&chunk))
        #expect(chunk.isEmpty && !splitter.isOverLimit)
        chunk = Array("e".utf8)[...]
        keep(splitter.next(&chunk))
        #expect(splitter.isOverLimit)
        keep(splitter.last())
        keep(splitter.last())
        #expect(found == ["a", "bcd…"])
    }
}

@Suite struct ErrorLinesTests {
    private let now = SuspendingClock.now

    @Test func cutAndRepaired() {
        var lines = ErrorLines()
        let long = String(repeating: "x", count: 10_000)
        let bytes = Array("plain\r\n\n  \n\(long)\n".utf8) + [0x66, 0xFF, 0x66]
        let texts = (lines.split(bytes[...], at: now) + lines.finish(at: now)).map(\.text)
        #expect(texts == ["plain", long.prefix(ErrorLines.maximumLength) + "…", "f\u{FFFD}f"])
    }

    @Test func whatATerminalWouldObeyIsSpelledOut() {
        var lines = ErrorLines()
        let bytes = Array("\u{1B}[1mbold\u{1B}[0m\n\ttabbed, naïve 👩‍👧\n".utf8)
        #expect(
            lines.split(bytes[...], at: now).map(\.text) == [
                #"\u{1b}[1mbold\u{1b}[0m"#, "\ttabbed, naïve 👩‍👧",
            ])
        #expect("a\nb\r".excerpt == #"a\u{a}b\u{d}"#)
        #expect(String(repeating: "é", count: 201).excerpt == String(repeating: "é", count: 200) + "…")
    }

    @Test func inALongFloodLinesComeTogetherEachSecond() {
        var lines = ErrorLines()
        let flood = Array(String(repeating: "x\n", count: 1000).utf8)
        var told: [Int] = []
        for tenth in 0..<30 {
            told.append(lines.split(flood[...], at: now.advanced(by: .milliseconds(100 * tenth))).count)
        }
        #expect(
            told.filter { $0 > 0 } == [ErrorLines.burst, ErrorLines.linesPerSecond, ErrorLines.linesPerSecond])
    }

    @Test func floodIsHeldBackAndCounted() {
        var lines = ErrorLines()
        let flood = Array(String(repeating: "x\n", count: 1000).utf8)
        #expect(lines.split(flood[...], at: now).count == ErrorLines.burst)
        #expect(lines.dropped == 1000 - ErrorLines.burst)
        let later = lines.split(Array("y\nz\n".utf8)[...], at: now.advanced(by: .seconds(1)))
        #expect(
            later == [
                .init(text: "y", droppedBefore: 1000 - ErrorLines.burst), .init(text: "z", droppedBefore: 0),
            ])
        #expect(lines.dropped == 0)
        let muchLater = lines.split(flood[...], at: now.advanced(by: .seconds(3600)))
        #expect(muchLater.count == ErrorLines.burst)
    }
}
