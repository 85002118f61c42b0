import Glibc

/// The script with inotifywait and sqlite3.
enum ShellConsumer {
    /// - Throws: `Tool.Missing` where one of these is not installed.
    static func contestant(_ workplace: Workplace, _ store: String, _ writer: StoreWriter) throws
        -> any Contestant
    {
        _ = try Tool.find("inotifywait", package: "inotify-tools")
        _ = try Tool.find("sqlite3", package: "sqlite3")
        let shell = try Tool.find("bash", package: "bash")
        let ends = try Child.pipe()
        defer { close(ends.writing) }
        let child = try Child(
            [shell, workplace.script, store], environment: ["PATH=\(Tool.usual.joined(separator: ":"))"],
            output: ends.writing, isGroup: true)
        let lines = LineReader(ends.reading)
        guard try lines.next(within: StampReader.timeout) != nil else {
            child.end()
            throw BenchError("The shell script does not start to listen.")
        }
        // "id|object|…"
        let key = { (line: Substring) -> Int64? in
            line.split(separator: "|").dropFirst().first.flatMap { Int64($0) }
        }
        return LineContestant("shell: inotifywait and sqlite3", .rival, child, lines, key: key) {
            let time = try writer.commit()
            return (writer.last, time)
        }
    }
}
