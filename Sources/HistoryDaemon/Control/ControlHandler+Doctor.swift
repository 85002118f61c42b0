import FoundationEssentials
import Glibc
import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import PersistentHistory

/// Answers `historyctl doctor`. It only reads.
extension ControlHandler {
    func examine(_ name: String?) async throws(ControlError) -> DoctorReport {
        var findings: [DoctorReport.Finding] = []
        var folders: Set<String> = [dependencies.stateFolder]
        let verdict = await health()
        let stores = try await stores(name)
        for store in stores {
            // For a folder's stores, only problems are named, unless the request is for these stores.
            let isOneOfMany = name == nil && store.configuration.template != nil
            defer { if isOneOfMany { findings.removeAll { $0.problem == nil && $0.note == nil } } }
            let path = store.configuration.path
            let isOnlyRead = store.configuration.source.isOnlyRead
            let isPolled = store.configuration.poll != nil
            var problems =
                Self.missing(path)
                + (isOnlyRead ? Self.readingProblems(path) : StoreAccess.problems(of: path, isPolled: isPolled))
            // Permissions and missing files are named above, with their remedies.
            if problems.isEmpty { problems = Self.problems(of: store.name, in: verdict) }
            // A store that cannot be read is reported above.
            let notes =
                problems.isEmpty
                ? await onPool {
                    [
                        isOnlyRead ? nil : try? JournalMode.note(on: path),
                        isPolled ? nil : FileSystemKind(of: path)?.note,
                    ].compactMap(\.self)
                } : []
            let note = notes.isEmpty ? nil : notes.joined(separator: " ")
            findings += Self.findings(.store, path, problems, note: note)
            folders.insert(PathNames.parent(of: path))
            for replica in store.served.consumers.flatMap(\.contexts) {
                findings += Self.findings(
                    .replica, replica.path, StoreAccess.problems(ofReplica: replica.path, replica.access))
                folders.insert(PathNames.parent(of: replica.path))
            }
            findings.append(.init(.clock, store.name, problem: await clockProblem(store)))
        }
        findings += await pluginFindings()
        findings.append(.init(.inotify, "limits", problem: Self.inotifyProblem()))
        if let finding = Self.watches(stores: stores.count, await engine.loaded.configuration) {
            findings.append(finding)
        }
        for folder in folders.sorted() {
            findings.append(.init(.space, folder, problem: Self.spaceProblem(folder)))
        }
        return DoctorReport(user: Self.user, findings: findings)
    }

    /// Checks that each command can be started and that its interpreter works in the daemon's own sandbox. Each
    /// interpreter is started once.
    private func pluginFindings() async -> [DoctorReport.Finding] {
        var findings: [DoctorReport.Finding] = []
        var known: [InterpreterTrial: String?] = [:]
        for plugin in await engine.catalog.needed {
            let (problem, check) = await onPool {
                (
                    plugin.command.first.flatMap { CommandCheck.problem(of: $0) },
                    InterpreterCheck(of: plugin)
                )
            }
            if let problem {
                findings.append(.init(.plugin, plugin.name, problem: "The command \(problem)."))
                continue
            }
            guard let check else {
                findings.append(.init(.plugin, plugin.name))
                continue
            }
            let trial = InterpreterTrial(command: check.command, environment: plugin.environment)
            let found: String?
            if let before = known[trial] { found = before } else { found = await check.problem(of: plugin) }
            known[trial] = .some(found)
            findings.append(
                .init(.plugin, plugin.name, problem: found, note: found == nil ? check.note() : nil))
        }
        return findings
    }

    private struct InterpreterTrial: Hashable {
        let command: [String]
        let environment: [String: String]
    }

    private static func findings(
        _ check: DoctorReport.Check, _ subject: String, _ problems: [String], note: String? = nil
    ) -> [DoctorReport.Finding] {
        problems.isEmpty
            ? [.init(check, subject, note: note)] : problems.map { .init(check, subject, problem: $0) }
    }

    /// For a store that is only read, with its log.
    private static func readingProblems(_ path: String) -> [String] {
        ["", "-wal", "-shm"].map { path + $0 }.filter { access($0, F_OK) == 0 && access($0, R_OK) != 0 }.map {
            "The file \"\($0)\" cannot be read by this user."
        }
    }

    /// What the health report says about the store itself: the doctor and the health report must agree that
    /// nothing is wrong.
    private static func problems(of store: String, in verdict: HealthReport) -> [String] {
        let causes: [HealthReport.Cause] = [
            .storeNotOpen, .storeStuck, .stateNotWritable, .notTracked, .cleaningFailing,
        ]
        return verdict.reasons.filter { $0.store == store && causes.contains($0.cause) }.map(\.message)
    }

    private static func missing(_ path: String) -> [String] {
        StoreAccess.missing(path).map {
            ["There is no \($0), or it is not shown to this user: the store waits for it."]
        } ?? []
    }

    private static var user: String {
        let (name, number) = (Accounts.name(ofUser: geteuid()), String(geteuid()))
        return name == number ? number : "\(name) (\(number))"
    }

    /// A clock that was set back, or never set: the times of transactions, and therefore lag, mean nothing
    /// then.
    private func clockProblem(_ store: RunningStore) async -> String? {
        let positions: StoreControl.Positions
        let backlog: Backlog?
        // It was checked while the store was open.
        if store.control.isResting { return nil }
        do {
            positions = try await store.control.positions()
            let before = positions.newest.number - 1
            backlog =
                before >= 0 ? try await store.control.backlogs(after: [before], of: []).positions[before] : nil
        } catch {
            // Reported for the store itself.
            return nil
        }
        let now = HistoryTimestamp.now.milliseconds
        guard let newest = backlog?.entries.last?.timestamp, newest.milliseconds > now + 60_000 else {
            return nil
        }
        return
            "The time of the newest transaction is \(newest), but the time now is \(HistoryTimestamp.now): the clock was set back. See timedatectl."
    }

    /// The inotify watches that a store needs: for its file, its `-wal` and its `-journal`.
    private static let watchesOfStore = 3

    /// What the limit of inotify watches must be for folders that hold as many stores as they may.
    private static func watches(stores: Int, _ configuration: DaemonConfiguration) -> DoctorReport.Finding? {
        if configuration.templates.isEmpty { return nil }
        let most = configuration.stores.count + configuration.templates.map(\.maximumStores).reduce(0, +)
        let needed = most * watchesOfStore + 64
        let text =
            "\(stores, "store") need about \(stores * watchesOfStore) inotify watches, and \(most) (\"maximumStores\") about \(needed)"
        // The sandbox hides the file.
        let limit = Int(AtomicFile.text("/proc/sys/fs/inotify/max_user_watches").filter(\.isNumber))
        guard let limit, limit < needed else {
            return .init(.inotify, "watches", note: "\(text). fs.inotify.max_user_watches must be no less.")
        }
        return .init(
            .inotify, "watches",
            problem: "\(text). The limit is \(limit). As root: sysctl fs.inotify.max_user_watches=\(needed)")
    }

    /// Tries it: the sandbox hides the limits themselves (`ProcSubset=pid`).
    private static func inotifyProblem() -> String? {
        let descriptor = inotify_init1(Int32(IN_CLOEXEC))
        guard descriptor >= 0 else {
            return
                "No further inotify instance can be created: \(String(cString: strerror(errno))). As root: sysctl fs.inotify.max_user_instances=1024"
        }
        defer { close(descriptor) }
        guard inotify_add_watch(descriptor, "/", UInt32(IN_DELETE_SELF)) >= 0 else {
            return
                "No further file can be watched: \(String(cString: strerror(errno))). As root: sysctl fs.inotify.max_user_watches=524288"
        }
        return nil
    }

    /// A write-ahead log soon fills less.
    private static let leastSpace: UInt64 = 64 << 20

    private static func spaceProblem(_ folder: String) -> String? {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { return nil }
        let free = UInt64(status.f_bavail) * UInt64(status.f_frsize)
        if free < leastSpace {
            return "There are only \(free >> 20) MB free on the disk of \"\(folder)\": free some space."
        }
        if status.f_files > 0, status.f_favail == 0 {
            return "There are no inodes left on the disk of \"\(folder)\": remove files."
        }
        return nil
    }
}
