import Glibc

/// Why nothing can be measured.
struct BenchError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// A system call that just failed.
    static func system(_ what: String, _ number: Int32 = errno) -> BenchError {
        BenchError("Cannot \(what): \(String(cString: strerror(number))).")
    }
}

/// Progress messages, which are not part of the table.
enum Progress {
    static func note(_ text: String) {
        // Where it cannot be written, nothing waits for it.
        let line = Array("\(text)\n".utf8)
        write(STDERR_FILENO, line, line.count)
    }

    /// For cleaning up at the end: a failure is reported, and does not affect the figures.
    static func attempt(_ body: () throws -> Void) {
        do {
            try body()
        } catch {
            note("\(error)")
        }
    }
}
