import Glibc
package import PersistentHistory

/// The control socket, bound and listening: created by the service manager, or here.
package struct ControlListener: Sendable {
    package let path: String
    let descriptor: Int32
    /// Whether this process created the socket, and removes it at the end.
    let isOurs: Bool

    /// The group's members may connect; the peer's uid decides whether it may change something.
    static let mode: mode_t = 0o660

    /// Takes the socket that the service manager passes (sd_listen_fds(3)), or binds one.
    ///
    /// It replaces a socket without a listener, left by a daemon that was killed. It leaves anything else at
    /// the path alone.
    ///
    /// - Throws: `HistoryError` with `.controlSocket`.
    package init(path: String, passed: PassedSockets) throws(HistoryError) {
        self.path = path
        if let control = passed.control {
            descriptor = control
            isOurs = false
            return
        }
        descriptor = try Self.bind(path)
        isOurs = true
    }

    private static func bind(_ path: String) throws(HistoryError) -> Int32 {
        guard path.utf8.count <= UnixAddress.longestPath else {
            throw HistoryError(
                .controlSocket,
                "The control socket's path \"\(path)\" is too long: at most \(UnixAddress.longestPath) bytes are allowed.",
                hint: "Set a shorter path with --control-socket.")
        }
        try removeDeadSocket(path)
        do throws(SystemError) {
            return try UnixAddress.listen(at: path, mode: mode)
        } catch {
            throw failed("bound", path, error.number)
        }
    }

    private static func removeDeadSocket(_ path: String) throws(HistoryError) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw HistoryError(
                .controlSocket, "The control socket cannot be bound: \"\(path)\" exists and is not a socket.",
                hint: "Move it away, or set another path with --control-socket.")
        }
        do throws(SystemError) {
            close(try UnixAddress.connect(to: path))
        } catch  where error.number == ECONNREFUSED {
            guard unlink(path) == 0 else { throw failed("replaced", path, errno) }
            return
        } catch {
            // A file of another kind is there.
        }
        throw HistoryError(
            .controlSocket, "Another process already listens on the control socket \"\(path)\".",
            hint: "Stop that process, or set another path with --control-socket.")
    }

    private static func failed(_ what: String, _ path: String, _ number: Int32) -> HistoryError {
        HistoryError(
            .controlSocket,
            "The control socket \"\(path)\" cannot be \(what): \(String(cString: strerror(number))).",
            hint: "Check its folder, or set another path with --control-socket.")
    }

    /// Removes the socket's file.
    func remove() {
        if isOurs { unlink(path) }
    }
}
