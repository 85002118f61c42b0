/// Where the daemon listens, and historyctl knocks.
public enum ControlSocket {
    /// What the service manager makes for the system's daemon (RuntimeDirectory=historyd).
    public static let system = "/run/historyd/control.sock"

    /// `control.sock` in `$RUNTIME_DIRECTORY` (systemd.exec(5)); without one, in the state folder, which
    /// is one daemon's own.
    public static func server(environment: [String: String]) -> String {
        inRuntimeFolder(environment) ?? inStateFolder(environment)
    }

    /// The same for a client, which mostly has neither variable: then it is the system's daemon,
    /// or where there is none that of the user.
    public static func client(environment: [String: String], exists: (String) -> Bool) -> String {
        if let path = inRuntimeFolder(environment) { return path }
        let own = inStateFolder(environment)
        if environment["STATE_DIRECTORY"] != nil || exists(own) && !exists(system) { return own }
        return system
    }

    private static func inRuntimeFolder(_ environment: [String: String]) -> String? {
        environment["RUNTIME_DIRECTORY"]?.split(separator: ":").first.map { "\($0)/control.sock" }
    }

    private static func inStateFolder(_ environment: [String: String]) -> String {
        "\(StateFolderPath.path(environment: environment))/control.sock"
    }
}

/// The folder with the daemon's memory.
public enum StateFolderPath {
    /// `$STATE_DIRECTORY` (systemd.exec(5)), else `$XDG_STATE_HOME/historyd`, else
    /// `~/.local/state/historyd` (the XDG Base Directory Specification).
    public static func path(environment: [String: String]) -> String {
        if let given = environment["STATE_DIRECTORY"]?.split(separator: ":").first { return String(given) }
        if let state = environment["XDG_STATE_HOME"], !state.isEmpty { return "\(state)/historyd" }
        return "\(environment["HOME"] ?? "")/.local/state/historyd"
    }
}
