internal import Glibc

/// Decides whether this process may let SQLite create a store's `-wal`, `-shm` or `-journal`.
///
/// SQLite gives these files the permission bits of the store. Their owner is the process that creates
/// them. Their group is that of the process, or of the folder if that has the set-group-ID bit. Only as
/// root does SQLite give them to the store's owner (`findCreateFileMode` and `robustFchown` in
/// os_unix.c). So a daemon that opens an application's store first can lock the application out of it.
/// The rule: everyone who may read or write the store may do the same with the files beside it.
struct SideFileRule: Sendable {
    /// The folder of the store.
    struct Folder: Sendable, Equatable {
        var group: UInt32
        var hasSetGroupID: Bool
        /// The default access control list, which new files get.
        var defaults: AccessList?
        /// Whether the file system supports access control lists.
        var keepsLists: Bool
        /// Whether this process may create files here.
        var isWritable: Bool
    }

    struct Process: Sendable, Equatable {
        var user: UInt32
        var group: UInt32
        /// All groups, including `group`.
        var groups: Set<UInt32>
    }

    enum Decision: Sendable, Equatable {
        /// The file is right, or would be if SQLite created it now, or this process cannot create it at
        /// all.
        case open
        /// Create it with these rights before SQLite does.
        case make(FileRights)
        /// It exists and belongs to this process: set these rights.
        case mend(FileRights)
        /// A user that needs it cannot access it, or could not.
        case wait(Obstacle)
    }

    struct Obstacle: Sendable, Equatable {
        let lockedOut: FileRights.Principal
        /// The rights that the file has or would have.
        let rights: FileRights
        let isThere: Bool
        /// The steps that together remove the obstacle; empty if no known step does.
        let remedy: [Remedy]
    }

    enum Remedy: Sendable, Hashable {
        /// The store's group may write the store.
        case letGroupWrite
        /// A user gets an entry in the store's access control list.
        case letUserWrite(UInt32)
        /// This process's user joins the store's group.
        case joinGroup(UInt32)
        /// The file gets the owner, the group and the mode of the store.
        case giveBack
        /// New files in the folder get the store's group.
        case inheritGroup
    }

    var store: FileRights
    var folder: Folder
    var process: Process
    /// The groups of the store's owner.
    var ownerGroups: Set<UInt32>

    /// - Parameters:
    ///   - file: The rights of the existing file; nil if it does not exist.
    ///   - mayPrepare: Whether the file can be created before SQLite does. Not so for a file that comes
    ///     and goes with each transaction.
    func decision(for file: FileRights?, mayPrepare: Bool = true) -> Decision {
        let decision = decisionWithoutRemedy(for: file, mayPrepare)
        guard case .wait(let obstacle) = decision else { return decision }
        return .wait(
            Obstacle(
                lockedOut: obstacle.lockedOut, rights: obstacle.rights, isThere: obstacle.isThere,
                remedy: remedy(for: file, mayPrepare)))
    }

    private func decisionWithoutRemedy(for file: FileRights?, _ mayPrepare: Bool) -> Decision {
        // A file that does not exist and cannot be created locks no user out.
        if file == nil, !folder.isWritable { return .open }
        let found = file ?? madeBySQLite
        guard let lockedOut = lockedOut(of: found) else { return .open }
        if mayPrepare, file == nil || found.owner == process.user {
            for rights in possibilities where self.lockedOut(of: rights) == nil {
                return file == nil ? .make(rights) : .mend(rights)
            }
        }
        return .wait(Obstacle(lockedOut: lockedOut, rights: found, isThere: file != nil, remedy: []))
    }

    /// The first principal that may do more with the store than with the file.
    private func lockedOut(of file: FileRights) -> FileRights.Principal? {
        // A user that only the file names may count as another principal for the store.
        let others = file.principals.map { principal in
            (principal: principal, permissions: store.permissions(of: principal))
        }
        return (store.grantees(ownerGroups: ownerGroups) + others).first { principal, permissions in
            if case .user(process.user, _) = principal { return false }
            return !file.grants(permissions, to: principal)
        }?.principal
    }

    private var isRoot: Bool { process.user == 0 }

    /// The rights of a file that SQLite creates in this process.
    var madeBySQLite: FileRights {
        let group = folder.hasSetGroupID ? folder.group : process.group
        return FileRights(
            owner: isRoot ? store.owner : process.user, group: isRoot ? store.group : group, mode: store.mode,
            list: folder.defaults)
    }

    // MARK: What this process can make

    /// From the simplest on. The mode is always the store's: SQLite sets it again on empty files.
    private var possibilities: [FileRights] {
        var plain = madeBySQLite
        plain.list = nil
        if mayGive(store.group) { plain.group = store.group }
        guard folder.keepsLists else { return store.list == nil ? [plain] : [] }
        var detailed = plain
        var list = store.list ?? AccessList(ownGroup: store.groupPermissions)
        if detailed.owner != store.owner { list.users[store.owner] = store.ownerPermissions }
        list.users[detailed.owner] = nil
        if detailed.group != store.group {
            list.groups[store.group] = store.groupPermissions
            list.ownGroup = list.groups.removeValue(forKey: detailed.group) ?? store.otherPermissions
        }
        detailed.list = list
        return store.list == nil ? [plain, detailed] : [detailed]
    }

    private func mayGive(_ group: UInt32) -> Bool {
        isRoot || process.groups.contains(group) || folder.hasSetGroupID && folder.group == group
    }

    // MARK: What an administrator can do

    /// The first remedy that removes the obstacle.
    private func remedy(for file: FileRights?, _ mayPrepare: Bool) -> [Remedy] {
        let letWrite: Remedy =
            process.groups.contains(store.group) ? .letGroupWrite : .letUserWrite(process.user)
        let join = Remedy.joinGroup(store.group)
        let attempts: [[Remedy]] =
            file != nil
            ? [[.giveBack], [.giveBack, letWrite]]
            : [
                [.inheritGroup], [letWrite], [letWrite, .inheritGroup], [join], [join, .letGroupWrite],
                [join, .letGroupWrite, .inheritGroup], [.letUserWrite(process.user)],
            ]
        return attempts.first { attempt in
            // Members of root's group may do more than use a store.
            if store.group == 0, attempt.contains(join) { return false }
            var (rule, file) = (self, file)
            for step in attempt { rule.take(step, &file) }
            if case .wait = rule.decisionWithoutRemedy(for: file, mayPrepare) { return false }
            return true
        } ?? []
    }

    /// Applies a step to the rights.
    mutating func take(_ step: Remedy) {
        var file: FileRights?
        take(step, &file)
    }

    private mutating func take(_ step: Remedy, _ file: inout FileRights?) {
        switch step {
        case .letGroupWrite:
            // If there is a list, chmod(1) changes its mask.
            store.mode |= 0o060
        case .letUserWrite(let user):
            guard folder.keepsLists else { return }
            var list = store.list ?? AccessList(ownGroup: store.groupPermissions)
            list.users[user] = [.read, .write]
            store.list = list
            // As setfacl does it: the mask becomes the union of all entries that it applies to.
            let union = list.users.values.reduce(list.ownGroup) { $0.union($1) }
            let mask = list.groups.values.reduce(union) { $0.union($1) }
            store.mode = store.mode & 0o707 | UInt32(mask.rawValue) << 3
        case .joinGroup(let group): process.groups.insert(group)
        case .inheritGroup: (folder.hasSetGroupID, folder.group) = (true, store.group)
        case .giveBack:
            file = FileRights(owner: store.owner, group: store.group, mode: store.mode, list: store.list)
        }
    }
}

/// The message for an operator.
extension HistoryError {
    init(_ obstacle: SideFileRule.Obstacle, _ store: String, _ kind: SideFiles.Kind) {
        let owner = Accounts.name(ofUser: obstacle.rights.owner)
        let group = Accounts.name(ofGroup: obstacle.rights.group)
        let mode = String(obstacle.rights.mode, radix: 8)
        let rights = "\(owner):\(group) with mode \(mode)\(obstacle.rights.list == nil ? "" : "+")"
        let message =
            obstacle.isThere
            ? "The file \"\(store)\(kind.rawValue)\" locks \(obstacle.lockedOut) out of the store: it is \(rights)."
            : "Opening the store \"\(store)\" would lock \(obstacle.lockedOut) out of it: its \(kind.rawValue) would be \(rights)."
        let folder = PathNames.parent(of: store)
        let hint =
            obstacle.remedy.contains(.inheritGroup) && AccessAdvice.holdsMore(folder)
            ? AccessAdvice(.sharedFolder(folder)).text()
            : obstacle.remedy.isEmpty
                ? "Put both into one group that may write the store and its folder."
                : AccessAdvice(.sideFiles(obstacle.remedy, store: store)).text()
        self.init(.wouldLockOut, message, hint: hint)
    }
}

extension FileRights.Principal: CustomStringConvertible {
    var description: String {
        switch self {
        case .user(let user, _): "user \"\(Accounts.name(ofUser: user))\""
        case .group(let group): "group \"\(Accounts.name(ofGroup: group))\""
        case .others: "other users"
        }
    }
}

extension SideFileRule.Remedy {
    /// The command for it. `RemedyPlan` knows more about joining a group.
    func text(store: String) -> String {
        let quoted = ShellText.quote(store)
        switch self {
        case .letGroupWrite: return "chmod g+rw \(quoted)"
        case .letUserWrite(let user): return "setfacl -m u:\(Accounts.name(ofUser: user)):rw \(quoted)"
        case .joinGroup(let group):
            return "usermod -aG \(Accounts.name(ofGroup: group)) \(Accounts.name(ofUser: geteuid()))"
        case .giveBack:
            let files = SideFiles.Kind.allCases.map { store + $0.rawValue }.filter { FileRights(of: $0) != nil }
                .map(ShellText.quote).joined(separator: " ")
            let plain = "chown -h --reference=\(quoted) \(files) && chmod --reference=\(quoted) \(files)"
            return FileRights(of: store)?.list == nil
                ? plain : "\(plain) && getfacl -p \(quoted) | setfacl --set-file=- \(files)"
        case .inheritGroup:
            let folder = ShellText.quote(PathNames.parent(of: store))
            return "chgrp --reference=\(quoted) \(folder) && chmod g+s \(folder)"
        }
    }
}
