internal import CLinux
internal import Glibc

/// Rights as they are in the file system.
extension FileRights {
    /// O_PATH of Linux's fcntl.h, which glibc shows to GNU sources only.
    static let pathOnly: Int32 = 0o10_000_000
    private static let listName = "system.posix_acl_access"
    private static let defaultListName = "system.posix_acl_default"

    init(_ status: stat, list: AccessList?) {
        self.init(owner: status.st_uid, group: status.st_gid, mode: status.st_mode & 0o777, list: list)
    }

    /// Those of a regular file; nil if there is none, or it cannot be seen. A link is none: beside a store, anybody who
    /// may write the folder could let it lead to a file that has nothing to do with the store.
    init?(of path: String) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        self.init(status, list: Self.list(Self.listName, of: path).list)
    }

    /// - Returns: The list, and whether the file system has any.
    private static func list(_ name: String, of path: String) -> (list: AccessList?, isKept: Bool) {
        // More entries than anybody has: the kernel's own limit of an attribute.
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 8) { buffer in
            let count = getxattr(path, name, buffer.baseAddress, buffer.count)
            guard count >= 0 else { return (nil, errno != EOPNOTSUPP) }
            return (AccessList(UnsafeRawBufferPointer(rebasing: buffer[..<count])), true)
        }
    }

    /// Gives an open file these rights.
    ///
    /// - Parameter descriptor: May be one of O_PATH, whose closing drops no locks.
    func give(to descriptor: Int32) throws(SystemError) {
        var status = stat()
        try Self.check("fstat", fstat(descriptor, &status))
        // The calls for descriptors refuse those of O_PATH.
        let path = "/proc/self/fd/\(descriptor)"
        if status.st_uid != owner || status.st_gid != group {
            try Self.check("chown", chown(path, owner == status.st_uid ? uid_t.max : owner, group))
        }
        if let list {
            let bytes = list.bytes(mode: mode)
            try Self.check("setxattr", setxattr(path, Self.listName, bytes, bytes.count, 0))
        } else if removexattr(path, Self.listName) != 0, errno != ENODATA, errno != EOPNOTSUPP {
            throw SystemError(call: "removexattr", number: errno)
        }
        // Where there is a list, this sets its mask to what it is already.
        try Self.check("chmod", chmod(path, mode))
    }

    private static func check(_ call: String, _ result: Int32) throws(SystemError) {
        guard result == 0 else { throw SystemError(call: call, number: errno) }
    }
}

extension SideFileRule.Folder {
    /// - Returns: Nil if it cannot be seen.
    init?(of path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let (defaults, keepsLists) = FileRights.defaults(of: path)
        self.init(
            group: status.st_gid, hasSetGroupID: status.st_mode & S_ISGID != 0, defaults: defaults,
            // W_OK | X_OK
            keepsLists: keepsLists, isWritable: access(path, 3) == 0)
    }
}

extension FileRights {
    fileprivate static func defaults(of folder: String) -> (list: AccessList?, isKept: Bool) {
        list(defaultListName, of: folder)
    }
}

extension SideFileRule.Process {
    /// This process.
    static func current() -> Self {
        var groups = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
        let count = getgroups(Int32(groups.count), &groups)
        let others = groups.prefix(max(0, Int(count)))
        return Self(user: geteuid(), group: getegid(), groups: Set(others).union([getegid()]))
    }
}
