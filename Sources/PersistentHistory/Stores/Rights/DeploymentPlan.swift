internal import Glibc

/// What a daemon needs of the system to serve a store, including what it already has: rights for its
/// user, and permissions of its unit. The planner is the same as for advice on what is missing.
package struct DeploymentPlan: Sendable, Equatable {
    /// Shell commands for root.
    package let rights: [String]
    package let dropIns: [String]

    /// - Parameters:
    ///   - store: The absolute path of an existing store, with links resolved.
    ///   - user: The daemon's user.
    ///   - runsAsUser: Whether a drop-in of the unit is to name the user.
    ///   - unit: `historyd.service`, `historyd@blog.service`.
    /// - Throws: `HistoryError` with `.storeUnreadable` for a store in a folder that is not its own.
    package init(store: String, user: String, runsAsUser: Bool, unit: String) throws(HistoryError) {
        let folder = PathNames.parent(of: store)
        let isHidden = MountTable.homes.contains { PathNames.lies(folder, in: $0) }
        var obstacles: [AccessObstacle] = []
        if ![store, folder].allSatisfy({ Self.owns(user, $0) }) {
            guard !AccessAdvice.holdsMore(folder) else {
                throw HistoryError(
                    .storeUnreadable, "The store \"\(store)\" cannot be given to \(user).",
                    hint: AccessAdvice(.sharedFolder(folder)).text())
            }
            // The sandbox creates the folders above a home.
            if !isHidden { obstacles += Self.above(folder).map { .unseenFolder($0) } }
            obstacles += [
                .folder(folder, lacks: "rwx", isOwn: false), .unseenNewFiles(in: folder, of: store),
                .unseenStore(store),
            ]
        }
        rights = RemedyPlan(obstacles, user: user, unit: nil).commands
        let unit = DaemonUnit(name: unit)
        let runAs = runsAsUser ? [DropIn.run(as: user, group: Self.group(of: user))] : []
        dropIns = (runAs + [isHidden ? .show(folder) : .write(folder)]).map(unit.command)
    }

    /// The folders above a folder, except the system's.
    private static func above(_ folder: String) -> [String] {
        var (above, path) = ([String](), PathNames.parent(of: folder))
        while !AccessAdvice.isShared(path) {
            above.insert(path, at: 0)
            path = PathNames.parent(of: path)
        }
        return above
    }

    private static func owns(_ user: String, _ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && Accounts.name(ofUser: status.st_uid) == user
    }

    private static func group(of user: String) -> String {
        guard let entry = getpwnam(user) else { return user }
        return Accounts.name(ofGroup: entry.pointee.pw_gid)
    }
}
