/// What mounts let this process do, whatever the permissions of files say: a sandbox mounts folders
/// read-only, and others in place of homes.
struct MountTable: Sendable, Equatable {
    struct Mount: Sendable, Equatable {
        let path: String
        /// Read-only as mounted, for example by a sandbox.
        let isReadOnly: Bool
        /// Read-only as a file system.
        let isReadOnlySystem: Bool
        /// A folder without permissions, which ProtectHome=yes mounts in place of homes.
        let isInaccessible: Bool
        /// A file system in memory, which ProtectHome=tmpfs mounts there.
        let isInMemory: Bool
    }

    /// In mount order: a later mount covers an earlier one.
    let mounts: [Mount]

    /// - Parameter text: The text of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
    init(_ text: String) {
        mounts = text.split(separator: "\n").compactMap { line -> Mount? in
            let fields = line.split(separator: " ")
            guard fields.count > 5, let dash = fields.firstIndex(of: "-"), dash + 3 < fields.count else {
                return nil
            }
            func isReadOnly(_ options: Substring) -> Bool { options.split(separator: ",").contains("ro") }
            return Mount(
                path: Self.unescaped(fields[4]), isReadOnly: isReadOnly(fields[5]),
                isReadOnlySystem: isReadOnly(fields[dash + 3]),
                isInaccessible: fields[3].hasSuffix("/inaccessible/dir"),
                isInMemory: fields[dash + 1] == "tmpfs")
        }
    }

    /// The current mounts.
    static var current: MountTable { MountTable(AtomicFile.text("/proc/self/mountinfo")) }

    /// The mount of a path that has its links resolved.
    func mount(of path: String) -> Mount? {
        var found: Mount?
        for mount in mounts where PathNames.lies(path, in: mount.path) {
            if mount.path.utf8.count >= found?.path.utf8.count ?? 0 { found = mount }
        }
        return found
    }

    /// Whether a path is in homes that a sandbox hides.
    ///
    /// - Parameter isMissing: Whether the path does not exist. A system may have its homes in memory.
    func hidesHome(of path: String, isMissing: Bool) -> Bool {
        guard let mount = mount(of: path), Self.homes.contains(mount.path) else { return false }
        return mount.isInaccessible || mount.isInMemory && isMissing
    }

    /// The folders that ProtectHome= hides (systemd.exec(5)).
    static let homes = ["/home", "/root", "/run/user"]

    /// Decodes spaces and the like, which are octal digits.
    private static func unescaped(_ field: Substring) -> String {
        var (bytes, rest) = ([UInt8](), Array(field.utf8)[...])
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), rest.count >= 3,
                let code = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8)
            else {
                bytes.append(byte)
                continue
            }
            bytes.append(code)
            rest.removeFirst(3)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension PathNames {
    /// Whether a path is a folder or is below it.
    static func lies(_ path: String, in folder: String) -> Bool {
        let (path, folder) = (path.utf8, folder.utf8)
        return folder.count == 1 || path.elementsEqual(folder)
            || path.starts(with: folder) && path.dropFirst(folder.count).first == UInt8(ascii: "/")
    }
}
