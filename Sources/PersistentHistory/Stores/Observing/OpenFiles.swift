internal import Glibc

/// The files that this process has open, and its locks on them: proc_pid_fd(5), proc_pid_fdinfo(5).
///
/// Each open file takes a moment, so this is used only where something seems wrong.
package enum OpenFiles {
    /// Whether one of the open files fits; nil without `/proc`.
    static func contains(where isWanted: (_ descriptor: Int32, _ status: stat) -> Bool) -> Bool? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            var status = stat()
            guard let descriptor = Int32(name(of: entry)), fstat(descriptor, &status) == 0 else { continue }
            if isWanted(descriptor, status) { return true }
        }
        return false
    }

    /// The files that a process has open for writing, as device and inode; empty if they are not visible.
    package static func written(by process: Int32) -> Set<[UInt64]> {
        guard let folder = opendir("/proc/\(process)/fd") else { return [] }
        defer { closedir(folder) }
        var files: Set<[UInt64]> = []
        while let entry = readdir(folder) {
            let name = Self.name(of: entry)
            guard let file = FileID(of: "/proc/\(process)/fd/\(name)"),
                let info = (try? AtomicFile.read("/proc/\(process)/fdinfo/\(name)")) ?? nil,
                let flags = info.split(separator: UInt8(ascii: "\n")).first(where: {
                    $0.starts(with: "flags:".utf8)
                }),
                let number = Int32(
                    String(decoding: flags.dropFirst(6), as: UTF8.self).drop { $0 == "\t" }, radix: 8),
                number & O_ACCMODE != O_RDONLY
            else { continue }
            files.insert([file.device, file.inode])
        }
        return files
    }

    /// The name of a folder's entry.
    static func name(of entry: UnsafeMutablePointer<dirent>) -> String {
        withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
        }
    }

    /// Whether this process has a lock on a file that is dropped when it closes any descriptor of the
    /// file (fcntl(2)). All of SQLite's locks are such. Nil without `/proc`.
    static func hasProcessLock(on file: FileID) -> Bool? {
        contains { FileID($1) == file && hasProcessLock(by: $0) }
    }

    /// The same for a lock that was taken through one descriptor.
    static func hasProcessLock(by descriptor: Int32) -> Bool {
        guard let info = (try? AtomicFile.read("/proc/self/fdinfo/\(descriptor)")) ?? nil else { return false }
        // "lock:  1: POSIX  ADVISORY  READ 4711 08:01:131 128 128". Locks of an open file description are
        // of another kind.
        return info.split(separator: UInt8(ascii: "\n")).contains { line in
            line.starts(with: "lock:".utf8)
                && line.split(separator: UInt8(ascii: " ")).contains { $0.elementsEqual("POSIX".utf8) }
        }
    }

    /// The path of a descriptor's file; it ends with " (deleted)" if the file has no name.
    static func path(of descriptor: Int32) -> String? {
        let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX) + 16) {
            buffer -> [UInt8] in
            let count =
                buffer.baseAddress.map { readlink("/proc/self/fd/\(descriptor)", $0, buffer.count) } ?? -1
            return buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }
        }
        return text.isEmpty ? nil : String(decoding: text, as: UTF8.self)
    }
}
