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
