internal import Glibc

/// What an operator can do so that this process may use a store.
///
/// Everything on the way to the store is looked at, its folder, its file and the files beside it, also what is behind the first
/// obstacle: after one round of commands the store can be used.
struct AccessAdvice: Equatable {
    let obstacles: [AccessObstacle]

    /// Nil if nothing stands in the way, or if the store's folder is not there.
    ///
    /// - Parameters:
    ///   - path: Of a store that need not be there.
    ///   - unit: Of which this process is the service, if it is one's.
    init?(_ path: String, unit: DaemonUnit? = .current, mounts: MountTable = .current) {
        // SQLite looks for the other files beside the store itself.
        var survey = AccessSurvey(StorePath.real(path), unit: unit, mounts: mounts)
        survey.look()
        if survey.obstacles.isEmpty { return nil }
        obstacles = survey.obstacles
    }

    init(_ obstacles: AccessObstacle...) { self.obstacles = obstacles }

    /// Nil if nothing stands in the way of a replica, which this process makes.
    init?(
        replica path: String, _ readers: ReplicaAccess?, unit: DaemonUnit? = .current,
        mounts: MountTable = .current
    ) {
        var survey = AccessSurvey(StorePath.real(path), unit: unit, mounts: mounts)
        survey.lookAtReplica(readers)
        if survey.obstacles.isEmpty { return nil }
        obstacles = survey.obstacles
    }

    /// Nil if nothing stands in the way of the daemon's state.
    init?(state folder: String, unit: DaemonUnit? = .current, mounts: MountTable = .current) {
        var survey = AccessSurvey("\(StorePath.real(folder))/historyd.lock", unit: unit, mounts: mounts)
        survey.lookAtState()
        if survey.obstacles.isEmpty { return nil }
        obstacles = survey.obstacles
    }

    /// Whether the sandbox shows nothing of the store.
    var isHidden: Bool {
        obstacles.contains { if case .hiddenHome = $0 { true } else { false } }
    }

    /// What to do, as sentences.
    func text(user: String = Accounts.name(ofUser: geteuid()), unit: DaemonUnit? = .current) -> String {
        RemedyPlan(obstacles, user: user, unit: unit).text
    }

    /// Whether a folder is the system's, or holds all homes: no store's own.
    static func isShared(_ folder: String) -> Bool {
        MountTable.homes.contains(folder) || folder.split(separator: "/").count <= 1
    }

    /// Whether stores do not lie there alone.
    static func holdsMore(_ folder: String) -> Bool {
        isShared(folder) || ["/home", "/run/user", "/usr", "/var"].contains(PathNames.parent(of: folder))
    }
}
