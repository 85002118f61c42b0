import FoundationEssentials
import Glibc

/// Input that is read completely: a file, or standard input.
enum InputArgument {
    static func file(_ path: String) throws(StreamError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StreamError("\"\(path)\" cannot be opened", errno) }
        defer { close(descriptor) }
        return try bytes(descriptor, "\"\(path)\"")
    }

    static func standardInput() throws(StreamError) -> [UInt8] { try bytes(STDIN_FILENO, "Standard input") }

    private static func bytes(_ descriptor: Int32, _ name: String) throws(StreamError) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            if count > 0 {
                bytes += chunk[..<count]
            } else if errno != EINTR {
                throw StreamError("\(name) cannot be read", errno)
            }
        }
    }

    /// The absolute path, for a process with another working directory.
    static func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
    }
}
