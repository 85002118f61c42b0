internal import Glibc
internal import HistoryBase

/// Where the daemon listens and historyctl connects.
package enum ControlSocket {
    /// Created by the service manager for the system's daemon (RuntimeDirectory=historyd).
    package static let system = "/run/historyd/control.sock"

    /// `control.sock` in `$RUNTIME_DIRECTORY` (systemd.exec(5)), or else in the state folder, which belongs to
    /// one daemon.
    package static func server(environment: [String: String]) -> String {
        inRuntimeFolder(environment) ?? inStateFolder(environment)
    }

    /// The daemon that a client talks to. If the environment names a folder, it is the one there. Otherwise the
    /// user's own daemon takes precedence over the system's: first one that runs as a user service, then one
    /// that was started by hand.
    ///
    /// - Parameters:
    ///   - environment: The client's environment.
    ///   - isListening: Whether there is a daemon at a socket, even one that refuses this user.
    package static func client(environment: [String: String], isListening: (String) -> Bool) -> String {
        if let path = inRuntimeFolder(environment) { return path }
        if environment["STATE_DIRECTORY"] != nil { return inStateFolder(environment) }
        // The socket of a user service: RuntimeDirectory=historyd is in this folder then (systemd.exec(5)).
        let ofService = environment["XDG_RUNTIME_DIR"].flatMap {
            $0.isEmpty ? nil : "\($0)/historyd/control.sock"
        }
        return [ofService, inStateFolder(environment)].compactMap(\.self).first(where: isListening) ?? system
    }

    /// The daemon that a client in this process's environment talks to.
    package static func client() -> String {
        var environment: [String: String] = [:]
        for name in ["RUNTIME_DIRECTORY", "STATE_DIRECTORY", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"] {
            if let value = getenv(name) { environment[name] = String(cString: value) }
        }
        return client(environment: environment, isListening: isListening)
    }

    /// The sockets of all daemons that a client may find: its default first, then the system's and its
    /// instances'.
    package static func all() -> [String] {
        var instances: [String] = []
        if let folder = opendir("/run") {
            defer { closedir(folder) }
            while let entry = readdir(folder) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
                }
                if name.hasPrefix("historyd-") { instances.append("/run/\(name)/control.sock") }
            }
        }
        let own = client()
        return [own] + ([system] + instances.sorted()).filter { $0 != own && isListening($0) }
    }

    /// Whether a process listens at a socket, even if this user may not connect.
    package static func isListening(_ path: String) -> Bool {
        do throws(SystemError) {
            close(try UnixAddress.connect(to: path))
            return true
        } catch {
            // EAGAIN: the backlog is full (connect(2)).
            if error.number == EAGAIN { return true }
            guard error.number == EACCES || error.number == EPERM else { return false }
        }
        // The error may also come from a folder on the path.
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    private static func inRuntimeFolder(_ environment: [String: String]) -> String? {
        environment["RUNTIME_DIRECTORY"]?.split(separator: ":").first.map { "\($0)/control.sock" }
    }

    private static func inStateFolder(_ environment: [String: String]) -> String {
        "\(StateFolderPath.path(environment: environment))/control.sock"
    }
}

/// The folder with the daemon's state.
package enum StateFolderPath {
    /// `$STATE_DIRECTORY` (systemd.exec(5)), else `$XDG_STATE_HOME/historyd`, else
    /// `~/.local/state/historyd` (the XDG Base Directory Specification).
    package static func path(environment: [String: String]) -> String {
        if let given = environment["STATE_DIRECTORY"]?.split(separator: ":").first { return String(given) }
        if let state = environment["XDG_STATE_HOME"], !state.isEmpty { return "\(state)/historyd" }
        return "\(environment["HOME"] ?? "")/.local/state/historyd"
    }
}
