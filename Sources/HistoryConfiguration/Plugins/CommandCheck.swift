import Glibc
import HistoryBase

/// Checks whether a plugin's command can be started, without starting it.
package enum CommandCheck {
    /// A program's problem and its remedy; nil if there is none.
    ///
    /// - Parameter path: Absolute.
    package static func problem(of path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return "\(path.quoted) cannot be used: \(String(cString: strerror(errno)))"
        }
        guard status.st_mode & S_IFMT == S_IFREG else { return "\(path.quoted) is not a program" }
        guard access(path, X_OK) == 0 else {
            return "\(path.quoted) is not executable; use \"chmod +x\""
        }
        let file = open(path, O_RDONLY | O_CLOEXEC)
        // A file that is executable but not readable is a binary: the kernel reads it.
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(file, &bytes, bytes.count)
        let head = bytes.prefix(max(0, count))
        if head.starts(with: [0x7F, 0x45, 0x4C, 0x46]) { return nil }
        guard head.starts(with: "#!".utf8) else {
            return
                "\(path.quoted) is neither a program nor a script that names its interpreter; add a first line such as \"#!/bin/sh\""
        }
        // execve(2): the interpreter's path, which may follow spaces, ends at the first space.
        let line = head.dropFirst(2).prefix { $0 != UInt8(ascii: "\n") }
            .drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
            .prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\t") }
        let interpreter = String(decoding: line, as: UTF8.self)
        guard access(interpreter, X_OK) == 0 else {
            return
                "\(path.quoted) names the interpreter \(interpreter.quoted), which cannot be executed: \(String(cString: strerror(errno)))"
        }
        return nil
    }
}
