import Glibc

/// Reads the small files of a configuration.
enum ConfigurationFile {
    /// Why a file could not be read, in the system's words.
    struct Failure: Error, CustomStringConvertible {
        let reason: String
        let hint: String

        var description: String { "\(reason). \(hint)" }

        init(errno code: Int32) {
            self.init(reason: String(cString: strerror(code)), hint: Self.hint(code))
        }

        init(reason: String, hint: String) {
            self.reason = reason
            self.hint = hint
        }

        private static func hint(_ code: Int32) -> String {
            switch code {
            case EACCES, EPERM: "Let the user that historyd runs as (uid \(geteuid())) read it"
            case ENOENT, ENOTDIR: "Create it, or configure another path"
            case EISDIR: "Name a file"
            default: "Check the file system"
            }
        }
    }

    /// No configuration is larger, and the content is kept in memory while it is decoded.
    static let maximumSize = 4 << 20

    static func read(_ path: String) throws(Failure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(errno: errno) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Failure(errno: errno) }
            if count == 0 { return bytes }
            bytes += chunk[..<count]
            if bytes.count > maximumSize {
                throw Failure(reason: "Larger than \(maximumSize) bytes", hint: "Split it into several files")
            }
        }
    }

    /// The paths of a folder's `*.json`, as a shell would match them, in byte order.
    static func documents(in folder: String) throws(Failure) -> [String] {
        guard let stream = opendir(folder) else { throw Failure(errno: errno) }
        defer { closedir(stream) }
        var names: [String] = []
        while true {
            // Only errno distinguishes the end from a failure (readdir(3)).
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { throw Failure(errno: errno) }
                break
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(
                    to: CChar.self, capacity: MemoryLayout.size(ofValue: entry.pointee.d_name)
                ) {
                    String(cString: $0)
                }
            }
            if name.hasSuffix(".json"), !name.hasPrefix(".") { names.append(name) }
        }
        let prefix = folder.hasSuffix("/") ? folder : folder + "/"
        // Swift compares strings by Unicode's canonical forms, not by bytes.
        return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.map { prefix + $0 }
    }

    static func isFolder(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }

    /// Another file of the same folder, with the same form of path.
    static func sibling(_ name: String, of file: String) -> String {
        guard let slash = file.utf8.lastIndex(of: UInt8(ascii: "/")) else { return name }
        return "\(file[...slash])\(name)"
    }

    /// The absolute path of a file's folder, so that later changes of the working directory have no effect.
    static func folder(of file: String) -> String {
        let slash = file.utf8.lastIndex(of: UInt8(ascii: "/"))
        let folder = slash.map { String(file[..<$0]) } ?? ""
        if file.utf8.first == UInt8(ascii: "/") { return folder }
        guard let buffer = getcwd(nil, 0) else { return folder.isEmpty ? "." : folder }
        defer { free(buffer) }
        let current = String(cString: buffer)
        return folder.isEmpty || folder == "." ? current : "\(current)/\(folder)"
    }
}
