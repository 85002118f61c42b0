internal import Glibc

/// What stands in the way of a store that is to be served, as this process's user sees it.
package enum StoreAccess {
    /// Looks, and changes nothing.
    ///
    /// - Parameters:
    ///   - path: The store, which need not exist.
    ///   - isPolled: Whether it is served without inotify.
    /// - Returns: Sentences for an operator; none if it can be served, or is not there.
    package static func problems(of path: String, isPolled: Bool) -> [String] {
        var problems: [String] = []
        if !isPolled {
            do throws(ObserverError) {
                _ = try StoreObserver().watch(path)
            } catch {
                problems.append("\(error)")
            }
        }
        if let problem = SideFiles(of: path)?.problem { problems.append("\(problem)") }
        if let advice = AccessAdvice(path) {
            problems.append("The store \"\(path)\" cannot be used by this user. \(advice.text())")
        }
        return problems
    }

    /// The same for a replica, which need not be there.
    package static func problems(ofReplica path: String, _ readers: ReplicaAccess?) -> [String] {
        var problems: [String] = []
        let folder = StorePath.parent(of: path)
        let advice = AccessAdvice(path)
        var file = stat()
        if case .showHome = advice {
            problems.append("The replica \"\(path)\" cannot be made. \(advice?.text() ?? "")")
        } else if access(folder, F_OK) != 0, errno == ENOENT {
            problems.append(
                "There is no folder \"\(folder)\" for the replica, or the sandbox hides it. As root: install -d -o \(Accounts.name(ofUser: geteuid())) \(ShellText.quote(folder))"
            )
        } else if stat(path, &file) == 0, file.st_uid != geteuid(), geteuid() != 0 {
            let files = ["", "-wal", "-shm"].map { ShellText.quote(path + $0) }.joined(separator: " ")
            problems.append(
                "The replica \"\(path)\" belongs to \(Accounts.name(ofUser: file.st_uid)), and must belong to this user, who makes it. As root: rm -f \(files)"
            )
        } else if let advice {
            problems.append("The replica \"\(path)\" cannot be written by this user. \(advice.text())")
        }
        guard let readers else { return problems }
        var group: UInt32?
        if let name = readers.group {
            group = Accounts.group(named: name)
            if group == nil { problems.append("There is no group \"\(name)\" for the replica \"\(path)\".") }
        }
        var status = stat()
        guard stat(folder, &status) == 0, status.st_mode & S_IXOTH == 0 else { return problems }
        // Its readers must get to it.
        if status.st_gid != group || status.st_mode & S_IXGRP == 0 {
            problems.append(
                "Readers of the replica \"\(path)\" may not pass its folder. As root: chmod o+x \(ShellText.quote(folder))"
            )
        }
        return problems
    }
}
