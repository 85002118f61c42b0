internal import CPlatform
internal import Glibc

/// Distributes the process's descriptors. Each store reserves what its files need before any of them is
/// opened, so that the last store waits instead of whatever needs a descriptor next.
package final class DescriptorBudget: Sendable {
    package static let shared = DescriptorBudget { DescriptorLimit.current }

    private struct State {
        var taken = 0
        var spare = 96
    }

    private let limit: @Sendable () -> Int
    private let state = Locked(State())

    /// - Parameter limit: Returns the number of descriptors at the time of the call.
    init(limit: @escaping @Sendable () -> Int) { self.limit = limit }

    /// Sets how many descriptors stores leave for everything else: the log, the control socket, plugins,
    /// files that are open for a moment. At most half of all.
    package func keepSpare(_ count: Int) { state.withLock { $0.spare = count } }

    /// Reserves descriptors for a store.
    ///
    /// - Throws: `HistoryError` with `.tooManyFiles`.
    package func take(_ count: Int, for store: String) throws(HistoryError) -> Share {
        let limit = limit()
        let lack: State? = state.withLock { state in
            guard count <= limit - min(state.spare, limit / 2) - state.taken else { return state }
            state.taken += count
            return nil
        }
        guard let lack else { return Share(budget: self, count: count) }
        throw HistoryError(
            .tooManyFiles,
            "The store \"\(store)\" needs \(count) descriptors, and there are not so many left: the limit is \(limit), the other stores have \(lack.taken), and \(min(lack.spare, limit / 2)) are kept for everything else.",
            hint: HistoryError.raiseLimit)
    }

    /// How many descriptors processes that are started for one call may use: half of what the stores have
    /// left, so that a new store finds some.
    var forProcesses: Int {
        let limit = limit()
        let left = state.withLock { limit - min($0.spare, limit / 2) - $0.taken }
        return max(0, left / 2)
    }

    private func giveBack(_ count: Int) { state.withLock { $0.taken -= count } }

    /// Descriptors that are reserved as long as this object exists.
    package final class Share: Sendable {
        private let budget: DescriptorBudget
        private let count: Int

        fileprivate init(budget: DescriptorBudget, count: Int) {
            self.budget = budget
            self.count = count
        }

        deinit { budget.giveBack(count) }
    }
}

extension HistoryError {
    /// - Parameter what: The action that fails.
    package static func tooManyFiles(_ what: String, cause: any Error) -> HistoryError {
        HistoryError(
            .tooManyFiles, "\(what): there is no descriptor left, of \(DescriptorLimit.current).",
            hint: raiseLimit,
            cause: cause)
    }

    fileprivate static let raiseLimit =
        "Raise the limit of open files: LimitNOFILE= in the unit, or prlimit(1) now."
}

/// The limit on this process's descriptors.
package enum DescriptorLimit {
    /// The current soft limit. An operator can change it from outside (prlimit(1)).
    package static var current: Int {
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return Int(FD_SETSIZE) }
        return Int(clamping: limit.rlim_cur)
    }

    /// Raises the soft limit to the hard one. The soft limit is low for programs that use select(2). This
    /// one does not, and its child processes keep the low limit.
    package static func raise() {
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        let before = limit.rlim_cur
        limit.rlim_cur = limit.rlim_max
        // If that is refused, stores that do not fit wait, and report it.
        if setrlimit(resource, &limit) == 0 { given.withLock { $0 = UInt(before) } }
    }

    private static let given = Locked<UInt>(0)

    /// The soft limit that this process was started with, for programs that it starts; 0 if it has not changed.
    package static var inherited: UInt { given.withLock { $0 } }

    /// Whether there is no descriptor left, for this process or in the system.
    package static var isReached: Bool {
        let descriptor = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
        if descriptor >= 0 { close(descriptor) }
        return descriptor < 0 && (errno == EMFILE || errno == ENFILE)
    }

    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
}
