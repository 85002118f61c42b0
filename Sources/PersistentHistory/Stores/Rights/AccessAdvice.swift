internal import Glibc

/// What an operator can do so that this process may use a store.
///
/// It covers everything on the way to the store, its folder, its file and the files beside it, including
/// what is behind the first obstacle. After one round of commands the store can be used.
struct AccessAdvice: Equatable {
    let obstacles: [AccessObstacle]

    /// Nil if there is no obstacle, or if the store's folder does not exist.
    ///
    /// - Parameters:
    ///   - path: The path of a store that need not exist.
    ///   - unit: The unit that this process is the service of, if any.
    init?(_ path: String, unit: DaemonUnit? = .current, mounts: MountTable = .current) {
        // SQLite looks for the other files beside the store itself.
        var survey = AccessSurvey(StorePath.real(path), unit: unit, mounts: mounts)
        survey.look()
        if survey.obstacles.isEmpty { return nil }
        obstacles = survey.obstacles
    }

    init(_ obstacles: AccessObstacle...) { self.obstacles = obstacles }

    /// To a folder that this process may not look into, and to those on the way to it.
    init(folder: String, unit: DaemonUnit? = .current, mounts: MountTable = .current) {
        var survey = AccessSurvey("\(StorePath.real(folder))/", unit: unit, mounts: mounts)
        survey.lookIntoFolder()
        obstacles = survey.obstacles
    }

    /// Nil if there is no obstacle to a replica, which this process creates.
    init?(
        replica path: String, _ readers: ReplicaAccess?, unit: DaemonUnit? = .current,
        mounts: MountTable = .current
    ) {
        var survey = AccessSurvey(StorePath.real(path), unit: unit, mounts: mounts)
        survey.lookAtReplica(readers)
        if survey.obstacles.isEmpty { return nil }
        obstacles = survey.obstacles
    }

    /// Nil if there is no obstacle to the daemon's state.
    init?(state folder: String, unit: DaemonUnit? = .current, mounts: MountTable = .current) {
        var survey = AccessSurvey("\(StorePath.real(folder))/historyd.lock", unit: unit, mounts: mounts)
        survey.lookAtState()
        if survey.obstacles.isEmpty { return nil }
        obstacles = survey.obstacles
    }

    /// Whether the sandbox hides the store completely.
    var isHidden: Bool {
        obstacles.contains { if case .hiddenHome = $0 { true } else { false } }
    }

    /// What to do, as sentences.
    func text(user: String = Accounts.name(ofUser: geteuid()), unit: DaemonUnit? = .current) -> String {
        RemedyPlan(obstacles, user: user, unit: unit).text
    }

    /// Whether a folder belongs to the system or holds all homes, so that it cannot be a store's own.
    static func isShared(_ folder: String) -> Bool {
        MountTable.homes.contains(folder) || folder.split(separator: "/").count <= 1
    }

    /// Whether the folder holds more than stores.
    static func holdsMore(_ folder: String) -> Bool {
        isShared(folder) || ["/home", "/run/user", "/usr", "/var"].contains(PathNames.parent(of: folder))
    }
}
