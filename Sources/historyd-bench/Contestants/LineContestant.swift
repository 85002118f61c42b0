import Glibc
import PersistentHistory

/// An observer that prints a line for each row, with the row's key in it. The time is taken
/// when the line has been read.
final class LineContestant: Contestant {
    let name: String
    let role: ContestantRole
    private let commit: () throws -> (key: Int64, time: Int64)
    private let lines: LineReader
    private let key: (Substring) -> Int64?
    private let process: Child

    /// - Parameters:
    ///   - commit: makes a row; its key, and when it was committed.
    ///   - key: the key in a line; nil if there is none.
    init(
        _ name: String, _ role: ContestantRole, _ process: Child, _ lines: LineReader,
        key: @escaping (Substring) -> Int64?,
        commit: @escaping () throws -> (key: Int64, time: Int64)
    ) {
        self.name = name
        self.role = role
        self.process = process
        self.lines = lines
        self.key = key
        self.commit = commit
    }

    func latency() throws -> Double? {
        let committed = try commit()
        while true {
            guard let line = try lines.next(within: Self.timeout) else { return nil }
            if let key = key(line.text), key >= committed.key {
                return Double(line.time - committed.time) / 1000
            }
        }
    }

    func end() { process.end() }
}

/// Reads lines as they come.
final class LineReader {
    struct Line {
        let text: Substring
        let time: Int64
    }

    private let descriptor: Int32
    private var waiting: ArraySlice<Line> = []
    private var splitter = LineSplitter()

    /// Takes ownership of the descriptor.
    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// - Returns: nil if there is none within so many milliseconds.
    /// - Throws: where there will be none any more.
    func next(within timeout: Int32) throws(BenchError) -> Line? {
        while waiting.isEmpty {
            var source = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&source, 1, timeout) > 0 else { return nil }
            try fill()
        }
        return waiting.popFirst()
    }

    private func fill() throws(BenchError) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = read(descriptor, &buffer, buffer.count)
        let time = Clock.now
        guard count > 0 else { throw BenchError("A program that should print lines has ended.") }
        var rest = buffer[..<count]
        while let (line, _) = splitter.next(&rest) {
            waiting.append(Line(text: Substring(decoding: line, as: UTF8.self), time: time))
        }
    }
}
