internal import Glibc

/// Whether another process could read a store's file, as access(2) would decide. The daemon gives rows
/// only to processes that could read them without it.
package struct ReaderRights: Sendable {
    /// The process's user, its group and all others that it is in.
    package let userID: UInt32
    package let groups: Set<UInt32>

    package init(userID: UInt32, groups: Set<UInt32>) { (self.userID, self.groups) = (userID, groups) }

    private var principal: FileRights.Principal { .user(userID, groups: groups) }

    /// - Parameter path: An absolute path, which may lead through links.
    package func mayRead(_ path: String) -> Bool {
        assertMayWait()
        if userID == 0 { return true }
        let trail = PathTrail(following: path)
        guard let file = trail.store?.path, var rights = FileRights(of: file) else { return false }
        if rights.mode & FileRights.maskBits == 0 { rights.list = nil }
        let folders = Set(trail.lookups.map(\.folder))
        return rights.grants(.read, to: principal) && folders.allSatisfy(mayPass)
    }

    private func mayPass(_ folder: String) -> Bool {
        FileRights(passing: folder)?.grants(.read, to: principal) ?? false
    }
}

extension FileRights {
    /// The kernel ignores a list whose mask allows nothing (`acl_permission_check` in fs/namei.c): its
    /// named users then count as others.
    fileprivate static let maskBits: UInt32 = 0o070

    /// The rights to pass through a folder, as `read` here. Nil if the folder cannot be seen.
    init?(passing folder: String) {
        var status = stat()
        guard lstat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return nil }
        func passing(_ digit: UInt32) -> UInt32 { (digit & 1) << 2 }
        let mode = status.st_mode
        self.init(
            owner: status.st_uid, group: status.st_gid,
            mode: passing(mode >> 6) << 6 | passing(mode >> 3) << 3 | passing(mode),
            list: mode & Self.maskBits == 0 ? nil : Self.list(of: folder, permission: passing))
    }
}
