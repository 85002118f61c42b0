/// What can be wrong where it is installed, checked by the daemon itself: as its user, within its sandbox.
package struct DoctorReport: Codable, Sendable, Hashable {
    package enum Check: String, Codable, Sendable, CaseIterable {
        /// The daemon's and others' rights on a store, its folder and the files beside it.
        case store
        /// Rights on a replica, for the daemon and for its readers.
        case replica
        /// Whether a plugin's command can be started.
        case plugin
        /// Whether file changes can be watched.
        case inotify
        /// Whether the clock tells about the time that stands in the history.
        case clock
        /// Room on a disk.
        case space
    }

    package struct Finding: Codable, Sendable, Hashable {
        package var check: Check
        /// What was checked: a path, a plugin's name.
        package var subject: String
        /// What is wrong, and what mends it; not there where nothing is wrong.
        package var problem: String?
        /// What is worth knowing, though it is not wrong.
        package var note: String?

        package init(_ check: Check, _ subject: String, problem: String? = nil, note: String? = nil) {
            self.note = note
            self.check = check
            self.subject = subject
            self.problem = problem
        }
    }

    /// Whom it was checked for.
    package var user: String
    package var findings: [Finding]

    package init(user: String, findings: [Finding]) {
        self.user = user
        self.findings = findings
    }

    package var problems: Int { findings.count { $0.problem != nil } }
}
