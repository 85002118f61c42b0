import Glibc

/// The script with inotifywait and sqlite3. It prints a line for each row, and the time is taken when the line has
/// been read.
final class ShellConsumer {
    private let child: Child
    private let lines: LineReader

    /// - Throws: `Tool.Missing` where one of these is not installed.
    init(_ workplace: Workplace, _ store: String) throws {
        _ = try Tool.find("inotifywait", package: "inotify-tools")
        _ = try Tool.find("sqlite3", package: "sqlite3")
        let shell = try Tool.find("bash", package: "bash")
        let ends = try Child.pipe()
        defer { close(ends.writing) }
        child = try Child(
            [shell, Workplace.program("bench-consumer.sh"), store],
            environment: ["PATH=\(Tool.usual.joined(separator: ":"))"], output: ends.writing, isGroup: true)
        lines = LineReader(ends.reading)
        guard try lines.next(within: StampReader.timeout) != nil else {
            child.end()
            throw BenchError("The shell script does not start to listen.")
        }
    }

    /// Commits a row, and waits for its line.
    func latency(_ writer: StoreWriter) throws -> Double? {
        let committed = try writer.commit()
        while let line = try lines.next(within: Contestant.timeout) {
            // "id|object|…"
            let key = line.text.split(separator: "|").dropFirst().first.flatMap { Int64($0) }
            if let key, key >= writer.last { return Double(line.time - committed) / 1000 }
        }
        return nil
    }
}

/// Reads lines as they come.
final class LineReader {
    private let descriptor: Int32
    private var waiting: ArraySlice<(text: Substring, time: Int64)> = []
    /// The beginning of a line whose end has not come.
    private var start: [UInt8] = []

    /// Takes ownership of the descriptor.
    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// - Returns: nil if there is none within so many milliseconds.
    /// - Throws: where there will be none any more.
    func next(within timeout: Int32) throws(BenchError) -> (text: Substring, time: Int64)? {
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
        var lines = (start + buffer[..<count]).split(separator: 0x0A, omittingEmptySubsequences: false)
        start = Array(lines.removeLast())
        waiting += lines.map { (Substring(decoding: $0, as: UTF8.self), time) }
    }
}
