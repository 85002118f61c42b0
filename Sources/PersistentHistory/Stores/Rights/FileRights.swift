internal import CPlatform
internal import Glibc

/// What a user may do with the content of a file.
struct Permissions: OptionSet, Sendable, Hashable {
    let rawValue: UInt8

    static let read = Permissions(rawValue: 4)
    static let write = Permissions(rawValue: 2)

    /// - Parameter digit: One octal digit of a mode. The right to execute is left out.
    init(digit: UInt32) { rawValue = UInt8(digit & 6) }
    init(rawValue: UInt8) { self.rawValue = rawValue }
}

/// The entries of an access control list that are not in the mode: all but those of the owner, the mask
/// and the others (acl(5)).
struct AccessList: Sendable, Equatable {
    var users: [UInt32: Permissions] = [:]
    var groups: [UInt32: Permissions] = [:]
    /// What the file's own group may do, as far as the mask allows it.
    var ownGroup: Permissions = []
}

/// The owner and the permissions of a file.
struct FileRights: Sendable, Equatable {
    var owner: UInt32
    var group: UInt32
    /// The nine permission bits. If there is a list, the group's digit is its mask.
    var mode: UInt32
    /// Nil if the file has only its mode.
    var list: AccessList?

    /// A user with all its groups, everyone in a group, or everyone.
    enum Principal: Sendable, Hashable {
        case user(UInt32, groups: Set<UInt32>)
        case group(UInt32)
        case others
    }

    var ownerPermissions: Permissions { Permissions(digit: mode >> 6) }
    var otherPermissions: Permissions { Permissions(digit: mode) }
    private var mask: Permissions { Permissions(digit: mode >> 3) }
    /// The group's permissions before the mask applies.
    var groupPermissions: Permissions { list?.ownGroup ?? mask }

    /// Whether a principal has these permissions, by the access check algorithm of acl(5).
    func grants(_ wanted: Permissions, to principal: Principal) -> Bool {
        switch principal {
        case .others: return otherPermissions.isSuperset(of: wanted)
        case .group(let group): return grants(wanted, toMemberOf: [group])
        case .user(0, _): return true
        case .user(let user, let groups):
            if user == owner { return ownerPermissions.isSuperset(of: wanted) }
            if let named = list?.users[user] { return named.intersection(mask).isSuperset(of: wanted) }
            return grants(wanted, toMemberOf: groups)
        }
    }

    private func grants(_ wanted: Permissions, toMemberOf groups: Set<UInt32>) -> Bool {
        let own = groups.contains(group) ? [groupPermissions] : []
        let matching = own + groups.compactMap { list?.groups[$0] }
        if matching.isEmpty { return otherPermissions.isSuperset(of: wanted) }
        return matching.contains { $0.intersection(mask).isSuperset(of: wanted) }
    }

    /// What a principal may do.
    func permissions(of principal: Principal) -> Permissions {
        var permissions: Permissions = []
        for each in [Permissions.read, .write] where grants(each, to: principal) { permissions.insert(each) }
        return permissions
    }

    /// The named users, except the owner.
    var principals: [Principal] {
        [.group(group)] + (list?.users.keys.sorted() ?? []).map { .user($0, groups: []) }
            + (list?.groups.keys.sorted() ?? []).map { .group($0) }
    }

    /// Every user and group that may read or write the file, with the exact permissions.
    ///
    /// - Parameter ownerGroups: The groups that the owner is in.
    func grantees(ownerGroups: Set<UInt32>) -> [(principal: Principal, permissions: Permissions)] {
        var all: [(Principal, Permissions)] = [(.user(owner, groups: ownerGroups), ownerPermissions)]
        all.append((.group(group), groupPermissions.intersection(mask)))
        for (user, permissions) in (list?.users ?? [:]).sorted(by: { $0.key < $1.key }) {
            all.append((.user(user, groups: []), permissions.intersection(mask)))
        }
        for (group, permissions) in (list?.groups ?? [:]).sorted(by: { $0.key < $1.key }) {
            all.append((.group(group), permissions.intersection(mask)))
        }
        all.append((.others, otherPermissions))
        return all.filter { !$0.1.isEmpty }.map { (principal: $0.0, permissions: $0.1) }
    }
}

/// Rights as the file system stores them.
extension FileRights {
    /// O_PATH from Linux's fcntl.h, which glibc exposes to GNU sources only.
    static let pathOnly: Int32 = 0o10_000_000
    private static let listName = "system.posix_acl_access"
    private static let defaultListName = "system.posix_acl_default"

    init(_ status: stat, list: AccessList?) {
        self.init(owner: status.st_uid, group: status.st_gid, mode: status.st_mode & 0o777, list: list)
    }

    /// The rights of a regular file; nil if there is none, or it cannot be seen. Links do not count:
    /// beside a store, any user that may write the folder could place a link to an unrelated file.
    init?(of path: String) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        self.init(status, list: Self.list(Self.listName, of: path).list)
    }

    /// Whether there is something that is not a regular file, such as a folder or a link.
    static func isSomethingElse(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT != S_IFREG
    }

    /// - Returns: The list, and whether the file system supports lists.
    private static func list(_ name: String, of path: String) -> (list: AccessList?, isKept: Bool) {
        // The kernel's own limit of an attribute, more than any list needs.
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 8) { buffer in
            let count = getxattr(path, name, buffer.baseAddress, buffer.count)
            guard count >= 0 else { return (nil, errno != EOPNOTSUPP) }
            return (AccessList(UnsafeRawBufferPointer(rebasing: buffer[..<count])), true)
        }
    }

    /// The list of a file or a folder.
    ///
    /// - Parameter permission: Maps each digit that is found to the one to use.
    static func list(of path: String, permission: (UInt32) -> UInt32) -> AccessList? {
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 8) { buffer in
            let count = getxattr(path, listName, buffer.baseAddress, buffer.count)
            guard count >= 0 else { return nil }
            return AccessList(UnsafeRawBufferPointer(rebasing: buffer[..<count]), permission: permission)
        }
    }

    /// Sets the rights of an open file.
    ///
    /// - Parameter descriptor: May be one of O_PATH, whose closing drops no locks.
    func give(to descriptor: Int32) throws(SystemError) {
        var status = stat()
        try Self.check("fstat", fstat(descriptor, &status))
        // The functions for descriptors refuse those of O_PATH.
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
        // If there is a list, this sets its mask to the value that it already has.
        try Self.check("chmod", chmod(path, mode))
    }

    private static func check(_ call: String, _ result: Int32) throws(SystemError) {
        guard result == 0 else { throw SystemError(call: call, number: errno) }
    }
}

extension SideFileRule.Folder {
    /// - Returns: Nil if the folder cannot be seen.
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
    /// The rights of this process.
    static func current() -> Self {
        var groups = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
        let count = getgroups(Int32(groups.count), &groups)
        let others = groups.prefix(max(0, Int(count)))
        return Self(user: geteuid(), group: getegid(), groups: Set(others).union([getegid()]))
    }
}

/// Access control lists as the kernel keeps them, in the extended attributes `system.posix_acl_access` and
/// `system.posix_acl_default` (`linux/posix_acl_xattr.h`): a version, then entries of tag, permissions and id,
/// all little-endian.
extension AccessList {
    private enum Tag {
        static let owner: UInt16 = 0x01
        static let user: UInt16 = 0x02
        static let ownGroup: UInt16 = 0x04
        static let group: UInt16 = 0x08
        static let mask: UInt16 = 0x10
        static let others: UInt16 = 0x20
    }

    private static let version: UInt32 = 2
    private static let entrySize = 8
    private static let noID = UInt32.max

    /// - Returns: Nil if the bytes hold no more than a mode does, or are not a list.
    ///
    /// - Parameter permission: Maps each digit that is found to the one to use.
    init?(_ bytes: UnsafeRawBufferPointer, permission: (UInt32) -> UInt32 = { $0 }) {
        self.init()
        guard bytes.count >= 4, bytes.loadUnaligned(as: UInt32.self).littleEndian == Self.version else {
            return nil
        }
        var isMore = false
        for start in stride(from: 4, through: bytes.count - Self.entrySize, by: Self.entrySize) {
            let tag = bytes.loadUnaligned(fromByteOffset: start, as: UInt16.self).littleEndian
            let digit = bytes.loadUnaligned(fromByteOffset: start + 2, as: UInt16.self).littleEndian
            let id = bytes.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self).littleEndian
            let permissions = Permissions(digit: permission(UInt32(digit)))
            switch tag {
            case Tag.user: users[id] = permissions
            case Tag.group: groups[id] = permissions
            case Tag.ownGroup: ownGroup = permissions
            case Tag.mask: isMore = true
            default: break
            }
        }
        guard isMore else { return nil }
    }

    /// The bytes of the list for a file with this mode.
    func bytes(mode: UInt32) -> [UInt8] {
        var bytes: [UInt8] = []
        func append(_ value: some FixedWidthInteger) {
            withUnsafeBytes(of: value.littleEndian) { bytes += $0 }
        }
        func append(_ tag: UInt16, _ digit: UInt32, _ id: UInt32 = Self.noID) {
            append(tag)
            append(UInt16(digit & 7))
            append(id)
        }
        append(Self.version)
        append(Tag.owner, mode >> 6)
        // By id, as the kernel requires.
        for (id, permissions) in users.sorted(by: { $0.key < $1.key }) {
            append(Tag.user, UInt32(permissions.rawValue), id)
        }
        append(Tag.ownGroup, UInt32(ownGroup.rawValue))
        for (id, permissions) in groups.sorted(by: { $0.key < $1.key }) {
            append(Tag.group, UInt32(permissions.rawValue), id)
        }
        append(Tag.mask, mode >> 3)
        append(Tag.others, mode)
        return bytes
    }
}
