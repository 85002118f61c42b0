/// Problems of the installation, as the daemon itself finds them: as its user, within its sandbox.
package struct DoctorReport: Codable, Sendable, Hashable {
    package enum Check: String, Codable, Sendable, CaseIterable {
        /// The daemon's and others' permissions on a store, its folder and the files beside it.
        case store
        /// Permissions on a replica, for the daemon and for its readers.
        case replica
        /// Whether a plugin's command can be started.
        case plugin
        /// Whether file changes can be watched.
        case inotify
        /// Whether the clock roughly agrees with the times in the history.
        case clock
        /// Free space on a disk.
        case space
    }

    package struct Finding: Codable, Sendable, Hashable {
        package var check: Check
        /// The checked object: a path, or a plugin's name.
        package var subject: String
        /// The problem and its remedy; absent if there is none.
        package var problem: String?
        /// A remark that is not a problem.
        package var note: String?

        package init(_ check: Check, _ subject: String, problem: String? = nil, note: String? = nil) {
            self.note = note
            self.check = check
            self.subject = subject
            self.problem = problem
        }
    }

    /// The user as which the checks ran.
    package var user: String
    package var findings: [Finding]

    package init(user: String, findings: [Finding]) {
        self.user = user
        self.findings = findings
    }

    package var problems: Int { findings.count { $0.problem != nil } }
}
