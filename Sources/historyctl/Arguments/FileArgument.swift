import FoundationEssentials
import Glibc

/// A file that is read completely.
enum FileArgument {
    static func bytes(_ path: String) throws(StreamError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StreamError("\"\(path)\" cannot be opened", errno) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            guard count > 0 else {
                if errno == EINTR { continue }
                throw StreamError("\"\(path)\" cannot be read", errno)
            }
            bytes += chunk[..<count]
        }
    }

    /// The path for a process that has another current folder.
    static func absolute(_ path: String) throws(StreamError) -> String {
        if path.hasPrefix("/") { return path }
        guard let folder = getcwd(nil, 0) else {
            throw StreamError("The current folder cannot be found", errno)
        }
        defer { free(folder) }
        return "\(String(cString: folder))/\(path)"
    }
}
