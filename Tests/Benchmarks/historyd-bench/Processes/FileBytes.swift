import Glibc

/// Whole files and descriptors, read and written by system calls.
enum FileBytes {
    /// A small file's text, as those in /proc; empty if there is none.
    static func text(of path: String) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        return text(from: file)
    }

    /// Everything up to the end.
    static func text(from file: Int32) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = read(file, &buffer, buffer.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
    }

    /// An empty file to write to.
    static func create(_ path: String) throws(BenchError) -> Int32 {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw .system("write '\(path)'") }
        return file
    }
}

enum Clock {
    /// Nanoseconds of CLOCK_MONOTONIC: the same in all processes.
    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    static func pause(microseconds: UInt32) {
        usleep(microseconds)
    }
}
