import Foundation
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

@Suite struct AlertCountersTests {
    /// What was counted goes on after a restart; what is gone from the configuration does not.
    @Test func theyAreKept() throws {
        var counters = AlertCounters()
        counters.hooks["p/h"] = .init(failures: 3)
        counters.stores["a"] = .init(deletedChanges: 1, deadLetters: ["Main": 2])
        counters.pluginEnds["p"] = 1
        let bytes = try JSONEncoder().encode(counters)
        #expect(try JSONDecoder().decode(AlertCounters.self, from: bytes) == counters)
        var kept = counters
        kept.keepOnly(stores: ["a"], hooks: ["p/h", "q/h"])
        #expect(kept == counters)
        kept.keepOnly(stores: [], hooks: [])
        #expect(kept == AlertCounters())
    }
}

/// The file that the counters outlive a restart in.
@Suite struct CounterFileTests {
    private let folder: TemporaryFolder
    private var path: String { folder.file("counters.json") }

    init() throws { folder = try TemporaryFolder() }

    /// What is read, and what is logged meanwhile.
    private func load() throws -> (counters: AlertCounters, log: String) {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        let log = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        let writer = LineWriter(limit: 1 << 20, to: ends[1])
        let logger = Logger(label: "test") { _ in
            DaemonLogHandler.lines(LiveLogLevel(), to: writer, omitsEvents: false)
        }
        let counters = CounterKeeper.load(from: folder.path, logger: logger)
        #expect(writer.flush(within: .seconds(60)))
        close(ends[1])
        return (counters, String(decoding: try log.readToEnd() ?? Data(), as: UTF8.self))
    }

    private var files: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() }
    }

    @Test func whereThereIsNoneNothingIsSaid() throws {
        let (counters, log) = try load()
        #expect(counters == AlertCounters() && log.isEmpty)
    }

    @Test(
        "A damaged file is moved aside, which is logged, and counting starts over",
        arguments: [
            "", "rubbish", "{}", "[1]", String(repeating: "[", count: 2000), "{\"hooks\":{}",
            #"{"hooks":{"p/h":{"failures":-1}},"stores":{},"pluginEnds":{}}"#,
            #"{"hooks":{"p/h":{"failures":9223372036854775807}},"stores":{},"pluginEnds":{}}"#,
            #"{"hooks":{},"stores":{"s":{"deletedChanges":0,"deadLetters":{"M":1e300}}},"pluginEnds":{}}"#,
        ])
    func damaged(_ text: String) throws {
        try folder.write("counters.json", text)
        let place = try expectMovedAside()
        #expect(try String(contentsOfFile: folder.file(place), encoding: .utf8) == text)
    }

    @Test func aFolderOfThatNameIsMovedAside() throws {
        try folder.write("counters.json/keep", "this")
        let place = try expectMovedAside()
        #expect(try String(contentsOfFile: folder.file(place + "/keep"), encoding: .utf8) == "this")
    }

    /// A terabyte of nothing, of which no more is read than could be counters.
    @Test func aHugeFileIsMovedAside() throws {
        try folder.write("counters.json", "")
        try #require(truncate(path, 1 << 40) == 0)
        try expectMovedAside()
    }

    /// Nobody writes to it: whoever waited for that would wait for ever.
    @Test func aPipeIsMovedAside() throws {
        try #require(mkfifo(path, 0o600) == 0)
        try expectMovedAside()
    }

    /// - Returns: The name of the file that was moved aside.
    @discardableResult
    private func expectMovedAside(sourceLocation: SourceLocation = #_sourceLocation) throws -> String {
        let (counters, log) = try load()
        #expect(counters == AlertCounters(), sourceLocation: sourceLocation)
        let files = try files
        #expect(
            files.count == 1 && files[0].hasPrefix("counters.json.damaged-"), "\(files)",
            sourceLocation: sourceLocation)
        #expect(
            log.hasPrefix("error: The counters in \"\(path)\" are damaged") && log.contains(files[0])
                && log.contains("event=stateCorrupt"), "\(log)", sourceLocation: sourceLocation)
        // And what is counted now is kept.
        try AtomicFile.write([UInt8](JSONEncoder().encode(AlertCounters())), to: path)
        #expect(try load().log.isEmpty, sourceLocation: sourceLocation)
        return try #require(files.first)
    }
}
