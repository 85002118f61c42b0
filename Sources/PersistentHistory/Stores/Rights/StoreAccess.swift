internal import Glibc

/// What prevents this process's user from serving a store.
package enum StoreAccess {
    /// Checks, and changes nothing.
    ///
    /// - Parameters:
    ///   - path: The store, which need not exist.
    ///   - isPolled: Whether it is served without inotify.
    /// - Returns: Sentences for an operator; empty if the store can be served, or does not exist.
    package static func problems(of path: String, isPolled: Bool) -> [String] {
        let advice = AccessAdvice(path)
        var problems: [String] = []
        if !isPolled {
            do throws(ObserverError) {
                _ = try StoreObserver().watch(path)
            } catch {
                problems.append("\(error)")
                // The error ends with the same advice.
                if error.code == .unreadable, advice != nil { return problems }
            }
        }
        let sideFiles = SideFiles(of: path)?.problem
        if let sideFiles { problems.append("\(sideFiles)") }
        if let advice, advice.text() != sideFiles?.hint {
            problems.append("The store \"\(path)\" cannot be used by this user. \(advice.text())")
        }
        return problems
    }

    /// The group that may access a store, its folder or a folder above, where this process is in no group
    /// that may, and needs it.
    package static func lackingGroup(for path: String) -> String? {
        let own = SideFileRule.Process.current().groups
        let folder = PathNames.parent(of: path)
        var needs = [(folder, S_IRWXG), (path, S_IRGRP | S_IWGRP)]
        var above = PathNames.parent(of: folder)
        while above != "/", above != "." {
            needs.insert((above, S_IXGRP), at: 0)
            above = PathNames.parent(of: above)
        }
        for (path, rights) in needs {
            var status = stat()
            // The bits of access(2) are those of the group, moved.
            guard stat(path, &status) == 0, status.st_mode & rights == rights, !own.contains(status.st_gid),
                access(path, Int32(rights >> 3)) != 0
            else { continue }
            return Accounts.name(ofGroup: status.st_gid)
        }
        return nil
    }

    /// What is missing of a store, its file or its folder: `file "…"`; nil if nothing is.
    package static func missing(_ path: String) -> String? {
        guard access(path, F_OK) != 0, errno == ENOENT else { return nil }
        let folder = PathNames.parent(of: path)
        return access(folder, F_OK) == 0 ? "file \"\(path)\"" : "folder \"\(folder)\""
    }

    /// What prevents the use of a replica, which need not exist.
    package static func problems(ofReplica path: String, _ readers: ReplicaAccess?) -> [String] {
        var problems: [String] = []
        let folder = PathNames.parent(of: path)
        if let advice = AccessAdvice(replica: path, readers) {
            problems.append("The replica \"\(path)\" cannot be kept by this user. \(advice.text())")
        }
        guard let readers else { return problems }
        var group: UInt32?
        if let name = readers.group {
            group = Accounts.group(named: name)
            if group == nil { problems.append("There is no group \"\(name)\" for the replica \"\(path)\".") }
        }
        var status = stat()
        guard stat(folder, &status) == 0, status.st_mode & S_IXOTH == 0 else { return problems }
        // The readers must be able to pass its folder.
        if status.st_gid != group || status.st_mode & S_IXGRP == 0 {
            problems.append(
                "Readers of the replica \"\(path)\" may not pass its folder. As root: chmod o+x \(ShellText.quote(folder))"
            )
        }
        return problems
    }
}

/// Users and groups by name and number, from the system's databases.
package enum Accounts {
    /// `app`, or the number if the name is unknown.
    package static func name(ofUser user: UInt32) -> String {
        lookUp(passwd()) { entry, buffer, count, result in
            getpwuid_r(user, entry, buffer, count, result)
        } read: {
            $0.pw_name.map { String(cString: $0) }
        } ?? String(user)
    }

    package static func name(ofGroup group: UInt32) -> String {
        lookUp(Glibc.group()) { entry, buffer, count, result in
            getgrgid_r(group, entry, buffer, count, result)
        } read: {
            $0.gr_name.map { String(cString: $0) }
        } ?? String(group)
    }

    /// A group by its name, or by its number in digits.
    static func group(named name: String) -> UInt32? {
        lookUp(Glibc.group()) { entry, buffer, count, result in
            getgrnam_r(name, entry, buffer, count, result)
        } read: {
            $0.gr_gid
        } ?? UInt32(name)
    }

    /// The groups of a user.
    ///
    /// - Parameter likely: The group of a file of the user. It is used if the user is unknown, as in a
    ///   container whose users are another's.
    static func groups(ofUser user: UInt32, likely: UInt32) -> Set<UInt32> {
        let account = lookUp(passwd()) { entry, buffer, count, result in
            getpwuid_r(user, entry, buffer, count, result)
        } read: {
            (name: $0.pw_name.map { String(cString: $0) } ?? "", group: $0.pw_gid)
        }
        guard let account else { return [likely] }
        var groups = [gid_t](repeating: 0, count: 64)
        for _ in 0..<2 {
            var count = Int32(groups.count)
            if getgrouplist(account.name, account.group, &groups, &count) >= 0 {
                return Set(groups.prefix(Int(count)))
            }
            groups = [gid_t](repeating: 0, count: Int(count))
        }
        return [account.group]
    }

    // MARK: Lookups

    /// - Parameter empty: The value to fill with the answer.
    private static func lookUp<Entry, T>(
        _ empty: Entry,
        _ ask: (
            UnsafeMutablePointer<Entry>, UnsafeMutablePointer<CChar>, Int,
            UnsafeMutablePointer<UnsafeMutablePointer<Entry>?>
        ) -> Int32, read: (Entry) -> T?
    ) -> T? {
        var entry = empty
        var result: UnsafeMutablePointer<Entry>?
        // Retries with more room: a group may have many members.
        for size in [1 << 12, 1 << 16, 1 << 20] {
            let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: size)
            defer { buffer.deallocate() }
            if ask(&entry, buffer, size, &result) != ERANGE { return result.flatMap { read($0.pointee) } }
        }
        return nil
    }
}
