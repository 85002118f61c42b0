import Glibc
import HistoryConfiguration
import Logging
import PersistentHistory
import Synchronization
import Testing

@testable import HistoryDaemon

@Suite struct JournalLogHandlerTests {
    private struct Line: Sendable, Equatable {
        let level: Logger.Level
        let message: String
        let metadata: Logger.Metadata
    }

    /// What a handler wrote, in order.
    private func lines(
        level: LiveLogLevel = LiveLogLevel(), provider: Logger.MetadataProvider? = nil,
        of logging: (Logger) -> Void
    ) async -> [Line] {
        let (stream, lines) = AsyncStream.makeStream(of: Line.self)
        let handler = DaemonLogHandler(level: level, metadataProvider: provider) {
            lines.yield(Line(level: $0, message: $1, metadata: $2))
        }
        logging(Logger(label: "test") { _ in handler })
        lines.finish()
        return await stream.reduce(into: []) { $0.append($1) }
    }

    @Test func metadataIsMergedTheNearestWins() async {
        struct Failure: Error, CustomStringConvertible { let description = "it broke" }
        let provider = Logger.MetadataProvider { ["store": "provided", "author": "provided"] }
        let written = await lines(provider: provider) { logger in
            var logger = logger
            logger[metadataKey: "store"] = "logger's"
            logger[metadataKey: "hook"] = "logger's"
            logger.error("Text.", error: Failure(), metadata: ["author": "line's"])
        }
        #expect(
            written == [
                Line(
                    level: .error, message: "Text.",
                    metadata: [
                        "store": "provided", "hook": "logger's", "author": "line's", "error": "it broke",
                    ])
            ])
    }

    @Test func anEventCarriesItsLevelAndID() async {
        let written = await lines { $0.report(.hookRecovered, "Works again.", metadata: ["hook": "a/b"]) }
        #expect(
            written == [
                Line(
                    level: .notice, message: "Works again.",
                    metadata: ["hook": "a/b", "event": .string(MessageCode.hookRecovered.rawValue)])
            ])
    }

    /// What swift-log asks of every handler.
    @Test func levelAndMetadataAreValues() {
        let handler = DaemonLogHandler(level: LiveLogLevel()) { _, _, _ in }
        var first = Logger(label: "first") { _ in handler }
        first.logLevel = .debug
        first[metadataKey: "only-on"] = "first"
        var second = first
        second.logLevel = .error
        second[metadataKey: "only-on"] = "second"
        #expect(first.logLevel == .debug)
        #expect(second.logLevel == .error)
        #expect(first[metadataKey: "only-on"] == "first")
        #expect(second[metadataKey: "only-on"] == "second")
    }

    @Test func theSharedLevelIsSwitchedLive() async {
        let level = LiveLogLevel(.info)
        let written = await lines(level: level) { logger in
            var stubborn = logger
            stubborn.logLevel = .error
            logger.debug("not yet")
            level.level = .debug
            logger.debug("now")
            stubborn.debug("never")
            level.level = .critical
            logger.error("no longer")
            level.level = .off
            logger.critical("nothing at all")
        }
        #expect(written.map(\.message) == ["now"])
    }

    @Test(arguments: LogLevel.allCases)
    func everyLevelCanBeSet(level: LogLevel) {
        let live = LiveLogLevel(.info)
        live.level = level
        #expect(live.level == level)
    }

    @Test func plainLinesAreWrittenWhole() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        let writer = LineWriter(limit: 1 << 20, to: ends[1])
        let logger = Logger(label: "test") { _ in
            DaemonLogHandler.lines(LiveLogLevel(), to: writer, omitsEvents: false)
        }
        logger.notice("First.", metadata: ["store": "contacts"])
        logger.debug("Not shown.")
        logger.error("Second.")
        #expect(writer.flush(within: .seconds(60)))
        close(ends[1])
        var buffer = [UInt8](repeating: 0, count: 200)
        let count = read(ends[0], &buffer, buffer.count)
        #expect(
            String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
                == "notice: First. store=contacts\nerror: Second.\n")
    }
}

/// `$JOURNAL_STREAM` is inherited by children whose standard error leads elsewhere: systemd.exec(5).
@Suite struct JournalOutputTests {
    @Test(arguments: [
        ("9:4711", LogOutput.journal), ("9:4712", .standardError), ("8:4711", .standardError),
        ("", .standardError), ("4711", .standardError), ("9:47110", .standardError),
    ])
    func theJournalIsUsedWhenStandardErrorLeadsThere(stream: String, output: LogOutput) {
        #expect(LogOutput.suitable(journalStream: stream, device: 9, inode: 4711) == output)
    }
}
