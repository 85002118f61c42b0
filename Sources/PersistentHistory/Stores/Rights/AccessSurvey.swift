internal import Glibc

/// Checks everything on the way to a store as this process's user, and changes nothing.
struct AccessSurvey {
    private(set) var obstacles: [AccessObstacle] = []
    private let path: String
    private let folder: String
    private let unit: DaemonUnit?
    private let mounts: MountTable
    /// Whether the advice grants this user the folder, or the store, through an access control list.
    private var (isGranted, isStoreGranted) = (false, false)

    init(_ path: String, unit: DaemonUnit?, mounts: MountTable) {
        (self.path, self.unit, self.mounts) = (path, unit, mounts)
        folder = PathNames.parent(of: path)
    }

    mutating func look() {
        if isHidden {
            // The sandbox creates the folders above it, which can be passed.
            obstacles = [.hiddenHome(folder)] + (AccessAdvice.holdsMore(folder) ? [] : grantUnseen)
            return
        }
        guard lookAbove() else { return }
        // A store in a missing folder waits for the folder.
        if obstacles.isEmpty, access(folder, F_OK) != 0 { return }
        lookAtFolder()
        lookAtSandbox()
        // Files that this process could not create so far may lock others out.
        let remedies = obstacles.isEmpty ? [] : sideFileRemedies
        if !remedies.isEmpty { obstacles.append(.sideFiles(remedies, store: path)) }
    }

    private var isHidden: Bool {
        unit != nil && mounts.hidesHome(of: folder, isMissing: access(folder, F_OK) != 0 && errno == ENOENT)
    }

    private func isOwn(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_uid == geteuid()
    }

    // MARK: Folders

    /// - Returns: Whether the folder can be seen. If not, everything behind the obstacle was added.
    private mutating func lookAbove() -> Bool {
        var above = ""
        for name in folder.utf8.split(separator: UInt8(ascii: "/")).dropLast() {
            above += "/" + String(decoding: name, as: UTF8.self)
            if !obstacles.isEmpty {
                obstacles.append(.unseenFolder(above))
            } else if access(above, X_OK) != 0 {
                guard errno == EACCES else { return false }
                if AccessAdvice.isShared(above) {
                    obstacles = [.sharedFolder(above)]
                    return false
                }
                obstacles.append(.folder(above, lacks: "x", isOwn: isOwn(above)))
            }
        }
        return true
    }

    private mutating func lookAtFolder() {
        guard obstacles.isEmpty else {
            obstacles += grantUnseen
            return
        }
        let lacking = [("r", R_OK), ("w", W_OK), ("x", X_OK)].filter { lacks($0.1, folder) }.map(\.0)
        if lacking.isEmpty {
            lookAtFiles()
        } else if AccessAdvice.holdsMore(folder) {
            obstacles = [.sharedFolder(folder)]
        } else if isOwn(folder) {
            obstacles.append(.folder(folder, lacks: "rwx", isOwn: true))
            if !lacking.contains("x") { lookAtFiles() }
        } else if !keepsLists {
            obstacles.append(.noLists(folder))
        } else if lacking.contains("x") {
            obstacles += grantUnseen
        } else {
            obstacles.append(.folder(folder, lacks: "rwx", isOwn: false))
            isGranted = true
            lookAtFiles()
        }
    }

    mutating func lookIntoFolder() {
        guard lookAbove() || obstacles.isEmpty else { return }
        obstacles.append(
            AccessAdvice.holdsMore(folder)
                ? .sharedFolder(folder) : .folder(folder, lacks: "rwx", isOwn: isOwn(folder)))
    }

    private func lacks(_ permissions: Int32, _ path: String) -> Bool {
        access(path, permissions) != 0 && errno == EACCES
    }

    private var keepsLists: Bool { SideFileRule.Folder(of: folder)?.keepsLists ?? true }

    /// Rights on the folder, the store and the files beside it, which cannot be seen.
    private var grantUnseen: [AccessObstacle] {
        [
            .folder(folder, lacks: "rwx", isOwn: false), .unseenNewFiles(in: folder, of: path),
            .unseenStore(path),
        ]
    }

    // MARK: Files

    private mutating func lookAtFiles() {
        let beside = ["-wal", "-shm", "-journal"].map { path + $0 }
        let others = beside.filter(FileRights.isSomethingElse)
        let closed = ([path] + beside.dropLast()).filter { lacks(R_OK | W_OK, $0) && !others.contains($0) }
        obstacles += others.map { .notAFile($0, isLink: Self.isLink($0)) }
        if !isGranted, closed == [path], mayUseByGroup {
            obstacles.append(.sideFiles([.letGroupWrite], store: path))
            return
        }
        isStoreGranted = closed.contains(path)
        isGranted = isGranted || closed.contains { !isOwn($0) }
        if isGranted {
            guard keepsLists else {
                obstacles.append(.noLists(folder))
                return
            }
            // A default list opens new files beside a private store to its group, unless it says
            // otherwise. But it would close what other programs share in the folder through their group.
            if isPrivate, isSharedByGroup {
                obstacles = [.sharedFolder(folder)]
                return
            }
            let names = owners.map { Accounts.name(ofUser: $0) }
            obstacles.append(.newFiles(in: folder, owners: names, closesGroup: isPrivate))
        }
        obstacles += closed.map { .file($0, isOwn: isOwn($0)) }
    }

    private static func isLink(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    /// The users that create files beside the store, except this user and root.
    private var owners: [UInt32] {
        var status = stat()
        let owner = FileRights(of: path)?.owner ?? (stat(folder, &status) == 0 ? status.st_uid : 0)
        return [owner].filter { $0 != 0 && $0 != geteuid() }
    }

    /// Whether the group may read the store, this process is in that group, and the store has no access
    /// control list.
    private var mayUseByGroup: Bool {
        guard let rule = SideFileRule(of: path), rule.store.owner != rule.process.user else { return false }
        return rule.store.groupPermissions.contains(.read) && rule.process.groups.contains(rule.store.group)
            && rule.store.list == nil
    }

    /// Whether the store is closed to its group.
    private var isPrivate: Bool {
        FileRights(of: path).map { $0.list == nil && $0.groupPermissions.isEmpty } ?? false
    }

    /// Whether a group may write a file in the folder other than the store's files.
    private var isSharedByGroup: Bool {
        let name = path.utf8.dropFirst(folder.utf8.count + 1)
        return names.contains { other in
            guard !other.utf8.starts(with: name), let rights = FileRights(of: "\(folder)/\(other)") else {
                return false
            }
            return rights.mode & 0o020 != 0 && rights.list == nil
        }
    }

    /// The names in the folder.
    private var names: [String] {
        guard let entries = opendir(folder) else { return [] }
        defer { closedir(entries) }
        var names: [String] = []
        while let entry = readdir(entries) {
            names.append(
                withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
                })
        }
        return names
    }

    /// What is left to do for other users once this user has its rights.
    private var sideFileRemedies: [SideFileRule.Remedy] {
        guard var rule = SideFileRule(of: path) else { return [] }
        rule.folder.isWritable = true
        if case .sideFiles([.letGroupWrite], _)? = obstacles.last { rule.take(.letGroupWrite) }
        if isStoreGranted { rule.take(.letUserWrite(rule.process.user)) }
        if isGranted {
            var list = rule.folder.defaults ?? AccessList(ownGroup: isPrivate ? [] : [.read, .write])
            for user in [rule.process.user] + owners { list.users[user] = [.read, .write] }
            rule.folder.defaults = list
        }
        for kind in [SideFiles.Kind.wal, .shm] {
            if case .wait(let obstacle) = rule.decision(for: FileRights(of: path + kind.rawValue)) {
                return obstacle.remedy
            }
        }
        return []
    }

    // MARK: The daemon's own files

    mutating func lookAtReplica(_ readers: ReplicaAccess?) {
        if isHidden {
            obstacles = [
                .hiddenHome(folder), .missingFolder(folder), .folder(folder, lacks: "rwx", isOwn: false),
            ]
        } else {
            if access(folder, F_OK) != 0, errno == ENOENT {
                obstacles = [.missingFolder(folder)]
            } else if lookAbove() {
                lookAtOwnFolder()
            }
            lookAtSandbox()
        }
        if let group = readers?.group, let number = Accounts.group(named: group), geteuid() != 0,
            !SideFileRule.Process.current().groups.contains(number)
        {
            obstacles.append(.group(group))
        }
    }

    private mutating func lookAtOwnFolder() {
        if lacks(R_OK | W_OK | X_OK, folder) {
            if AccessAdvice.holdsMore(folder) {
                obstacles = [.sharedFolder(folder)]
                return
            }
            obstacles.append(.folder(folder, lacks: "rwx", isOwn: isOwn(folder)))
        }
        let files = ["", "-wal", "-shm"].map { path + $0 }.filter(isForeign)
        if !files.isEmpty { obstacles.append(.foreign(files, isTree: false)) }
    }

    /// Whether another user owns the file, as a program leaves it that once ran as root or as another
    /// user.
    private func isForeign(_ path: String) -> Bool {
        var status = stat()
        return geteuid() != 0 && lstat(path, &status) == 0 && status.st_uid != geteuid()
    }

    /// Checks the folder that `path` is the lock of.
    mutating func lookAtState() {
        var status = stat()
        guard lookAbove(), stat(folder, &status) == 0 else { return }
        let isOurs = status.st_uid == geteuid()
        if isOurs ? holdsForeignFiles : status.st_uid == 0 && isForeign(path) {
            // The state folder is for this user only.
            obstacles.append(.foreign([folder], isTree: true))
        } else if lacks(R_OK | W_OK | X_OK, folder) {
            obstacles.append(
                AccessAdvice.holdsMore(folder)
                    ? .sharedFolder(folder) : .folder(folder, lacks: "rwx", isOwn: isOurs))
        }
        // The unit's own state folder is writable in its sandbox.
        if getenv("STATE_DIRECTORY").map({ String(cString: $0) }) != folder { lookAtSandbox() }
    }

    private var holdsForeignFiles: Bool {
        names.contains { $0 != "." && $0 != ".." && isForeign("\(folder)/\($0)") }
    }

    // MARK: Mounts

    mutating func lookAtSandbox() {
        guard let mount = mounts.mount(of: folder) else { return }
        if mount.isReadOnlySystem {
            obstacles.append(.readOnlyMount(folder))
        } else if mount.isReadOnly {
            obstacles.append(unit == nil ? .readOnlyMount(folder) : .readOnlyInSandbox(folder))
        }
    }
}
