import Dispatch
import Glibc
import Logging
import PersistentHistory
import Synchronization
import Testing

@testable import HistoryDaemon

extension JournalEntry {
    fileprivate var text: String {
        String(decoding: bytes.prefix(ends.first ?? 0).dropFirst("MESSAGE=".utf8.count), as: UTF8.self)
    }
}

@Suite struct JournalWriterTests {
    /// A journal that takes entries only when it is let, and remembers them.
    private final class Journal: Sendable {
        private let gate = DispatchSemaphore(value: 0)
        private let taken: AsyncStream<JournalEntry>
        private let take: AsyncStream<JournalEntry>.Continuation
        private let refusals: Atomic<Int>

        init(open: Bool, refusing refusals: Int = 0) {
            (taken, take) = AsyncStream.makeStream()
            self.refusals = Atomic(refusals)
            if open { self.open() }
        }

        func open() { gate.signal() }

        func send(_ entry: JournalEntry) -> Bool {
            gate.wait()
            gate.signal()
            if refusals.subtract(1, ordering: .relaxed).newValue >= 0 { return false }
            take.yield(entry)
            return true
        }

        /// All entries so far; none may follow.
        func entries() async -> [JournalEntry] {
            take.finish()
            return await taken.reduce(into: []) { $0.append($1) }
        }

        func texts() async -> [String] { await entries().map(\.text) }
    }

    private func entry(_ text: String) -> JournalEntry { JournalEntry(level: .info, message: text) }

    @Test func entriesArriveInOrder() async {
        let journal = Journal(open: true)
        let writer = JournalWriter(limit: 1 << 20, send: journal.send)
        let texts = (0..<500).map { "line \($0)" }
        for text in texts { writer.write(entry(text)) }
        #expect(writer.flush(within: .seconds(60)))
        #expect(await journal.texts() == texts)
    }

    /// While journald stands still nobody waits for it: the rest is dropped, counted, and told later.
    @Test func aFullJournalDropsCountsAndTells() async {
        let journal = Journal(open: false)
        let one = entry("line 0").bytes.count
        let writer = JournalWriter(limit: 3 * one, send: journal.send)
        for number in 0..<10 { writer.write(entry("line \(number)")) }
        #expect(!writer.flush(within: .nanoseconds(0)))
        journal.open()
        #expect(writer.flush(within: .seconds(60)))
        let dropped = "7 log lines were dropped, because the journal did not take them in time."
        let entries = await journal.entries()
        #expect(entries.map(\.text) == ["line 0", dropped, "line 1", "line 2"])
        let fields = entries.map { String(decoding: $0.bytes, as: UTF8.self) }
        #expect(
            fields.map { $0.contains("MESSAGE_ID=\(MessageCode.linesDropped.rawValue)") } == [
                false, true, false, false,
            ])
    }

    /// The same on standard error: a pipe whose reader stands still.
    @Test func aFullPipeDropsCountsAndTells() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        for end in ends { try #require(fcntl(end, F_SETFL, O_NONBLOCK) == 0) }
        defer { for end in ends { close(end) } }
        let filling = [UInt8](repeating: UInt8(ascii: "#"), count: 4096)
        while write(ends[1], filling, filling.count) > 0 {}
        let line = LogLine(level: .info, message: "line 0")
        let writer = LineWriter(limit: 2 * line.size, to: ends[1])
        for number in 0..<5 { writer.write(LogLine(level: .info, message: "line \(number)")) }
        #expect(!writer.flush(within: .nanoseconds(0)))
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        #expect(read(ends[0], &buffer, buffer.count) > 0)
        #expect(writer.flush(within: .seconds(60)))
        let count = read(ends[0], &buffer, buffer.count)
        #expect(
            String(decoding: buffer.prefix(max(0, count)), as: UTF8.self) == """
                info: line 0
                warning: 3 log lines were dropped, because standard error did not take them in time. event=linesDropped
                info: line 1

                """)
        #expect(writer.droppedInAll == 3)
    }

    /// Room that was used is free again.
    @Test func afterwardsItTakesEntriesAgain() async {
        let journal = Journal(open: true)
        let writer = JournalWriter(limit: entry("line 0").bytes.count, send: journal.send)
        for number in 0..<9 {
            writer.write(entry("line \(number)"))
            #expect(writer.flush(within: .seconds(60)))
        }
        #expect(await journal.texts() == (0..<9).map { "line \($0)" })
    }

    @Test func whatTheJournalRefusesIsCountedToo() async {
        let journal = Journal(open: true, refusing: 3)
        let writer = JournalWriter(limit: 1 << 20, send: journal.send)
        // The first line and the report of it are refused, then the second line.
        for number in 0..<3 {
            writer.write(entry("line \(number)"))
            #expect(writer.flush(within: .seconds(60)))
        }
        let texts = await journal.texts()
        #expect(texts.first == "2 log lines were dropped, because the journal did not take them in time.")
        #expect(texts.dropFirst() == ["line 2"])
    }

    /// Whoever writes, and however much: each line arrives or is counted.
    @Test func nothingIsLostUncounted() async {
        let journal = Journal(open: false)
        let writer = JournalWriter(limit: 4_000, send: journal.send)
        await withTaskGroup(of: Void.self) { group in
            for name in 0..<4 {
                group.addTask {
                    for number in 0..<200 {
                        if name == 0, number == 100 { journal.open() }
                        writer.write(entry("writer \(name) line \(number)"))
                    }
                }
            }
        }
        #expect(writer.flush(within: .seconds(60)))
        let texts = await journal.texts()
        let arrived = texts.filter { $0.hasPrefix("writer") }
        let dropped = texts.filter { !$0.hasPrefix("writer") }.compactMap { Int($0.prefix { $0.isNumber }) }
        #expect(arrived.count + dropped.reduce(0, +) == 800)
        #expect(Set(arrived).count == arrived.count)
    }
}
