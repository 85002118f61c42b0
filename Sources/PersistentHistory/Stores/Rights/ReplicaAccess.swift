internal import Glibc

/// Which users may use a replica's file, and the files beside it.
public struct ReplicaAccess: Sendable, Hashable, Codable {
    /// The permission bits, such as 0o640. Only reading and writing can be granted.
    public let mode: UInt32
    /// A group's name or number; nil for the default group of new files.
    public let group: String?

    /// Permissions for the replica's files.
    ///
    /// - Parameters:
    ///   - mode: Nil lets the group read.
    ///   - group: A group's name or number; nil for the default group of new files.
    public init(mode: UInt32? = nil, group: String? = nil) {
        self.mode = (mode ?? 0o640) & 0o666 | 0o600
        self.group = group
    }

    /// Creates the file if it is missing, and sets its group and mode.
    ///
    /// - Throws: `HistoryError` with `.replicaUnwritable`.
    func apply(to path: String) throws(HistoryError) {
        let group = try group.map { name throws(HistoryError) in
            guard let number = Accounts.group(named: name) else {
                throw HistoryError(
                    .replicaUnwritable,
                    "The replica \"\(path)\" cannot be created: there is no group \"\(name)\".",
                    hint: "Create the group, or configure another one.")
            }
            return number
        }
        do throws(SystemError) {
            let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
            if descriptor >= 0 {
                defer { close(descriptor) }
                return try give(group, to: descriptor)
            }
            // Through a descriptor of O_PATH: closing any other would drop the locks of open connections.
            let other = open(path, FileRights.pathOnly | O_CLOEXEC)
            guard other >= 0 else { return }
            defer { close(other) }
            try give(group, to: other)
        } catch {
            throw HistoryError(
                .replicaUnwritable,
                "The replica \"\(path)\" cannot be given to group \"\(self.group ?? "")\", mode \(String(mode, radix: 8)): \(error).",
                hint: AccessAdvice(replica: path, self)?.text()
                    ?? "The daemon's user must own the file and be in the group: set SupplementaryGroups= in a drop-in.",
                cause: error)
        }
    }

    /// Creates the file if it is missing, for this user alone, whatever the umask. SQLite gives the files
    /// beside it the same mode. An existing file keeps its mode.
    static func makePrivate(_ path: String) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        // If creating it fails, opening it reports the reason.
        if descriptor >= 0 { close(descriptor) }
    }

    private func give(_ group: UInt32?, to descriptor: Int32) throws(SystemError) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw SystemError(call: "fstat", number: errno) }
        let now = FileRights(status, list: nil)
        var wanted = now
        wanted.mode = mode
        wanted.group = group ?? now.group
        if wanted != now { try wanted.give(to: descriptor) }
    }
}
