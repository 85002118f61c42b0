internal import Glibc

/// Whether another process could read a store's file, as access(2) would tell it: the daemon gives rows to nobody who
/// cannot have them without it.
package struct ReaderRights: Sendable {
    /// The process's user, its group and all others that it is in.
    package let userID: UInt32
    package let groups: Set<UInt32>

    package init(userID: UInt32, groups: Set<UInt32>) { (self.userID, self.groups) = (userID, groups) }

    private var principal: FileRights.Principal { .user(userID, groups: groups) }

    /// - Parameter path: Absolute. It may lead through links.
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
    /// The kernel does not look at a list whose mask allows nothing (`acl_permission_check` in fs/namei.c): users that it
    /// names are others then.
    fileprivate static let maskBits: UInt32 = 0o070

    /// Who may pass through a folder: the right to that is `read` here. Nil if it cannot be seen.
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
