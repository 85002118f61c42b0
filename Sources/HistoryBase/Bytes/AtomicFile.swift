internal import Glibc

/// A small file that is replaced atomically: it has either its new content or its old one.
package enum AtomicFile {
    package static func write(_ bytes: [UInt8], to path: String) throws(SystemError) {
        assertMayWait()
        let part = path + ".part"
        let file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw SystemError(call: "open", number: errno) }
        var failure = fill(file, bytes)
        if failure == nil, fsync(file) != 0 { failure = SystemError(call: "fsync", number: errno) }
        close(file)
        if failure == nil, rename(part, path) != 0 { failure = SystemError(call: "rename", number: errno) }
        guard let failure else { return try syncFolder(of: path) }
        unlink(part)
        throw failure
    }

    /// Syncs a file's folder to the disk. Otherwise a new name may be lost in a power failure (fsync(2)).
    package static func syncFolder(of path: String) throws(SystemError) {
        let folder = open(PathNames.parent(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { throw SystemError(call: "open", number: errno) }
        defer { close(folder) }
        // Some file systems do not support this, and do not need it.
        guard fsync(folder) == 0 || errno == EINVAL else { throw SystemError(call: "fsync", number: errno) }
    }

    private static func fill(_ file: Int32, _ bytes: [UInt8]) -> SystemError? {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return SystemError(call: "write", number: errno) }
            rest = rest.dropFirst(count)
        }
        return nil
    }

    /// Reads a whole file.
    ///
    /// - Parameter most: More bytes than this are an error, `EFBIG`.
    /// - Returns: Nil if there is no file.
    package static func read(_ path: String, most: Int = .max) throws(SystemError) -> [UInt8]? {
        // Does not wait for a writer if the file is a pipe.
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw SystemError(call: "open", number: errno)
        }
        defer { close(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = Glibc.read(file, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw SystemError(call: "read", number: errno) }
            if count == 0 { return bytes }
            guard bytes.count <= most - count else { throw SystemError(call: "read", number: EFBIG) }
            bytes += buffer[..<count]
        }
    }

    /// The text of a file such as those in /proc; empty if it cannot be read.
    package static func text(_ path: String) -> String {
        String(decoding: ((try? read(path)) ?? nil) ?? [], as: UTF8.self)
    }
}
