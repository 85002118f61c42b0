internal import CLinux
internal import Glibc

/// How many descriptors this process may have.
package enum DescriptorLimit {
    /// The soft limit now. An operator can change it from outside (prlimit(1)).
    package static var current: Int {
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return Int(FD_SETSIZE) }
        return Int(clamping: limit.rlim_cur)
    }

    /// Raises the soft limit to the hard one. The soft one is low for programs that use select(2), which this one does
    /// not, and stays so for those that this one starts.
    package static func raise() {
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        let before = limit.rlim_cur
        limit.rlim_cur = limit.rlim_max
        // Where that is refused, stores that do not fit wait, and say so.
        if setrlimit(resource, &limit) == 0 { given.withLock { $0 = UInt(before) } }
    }

    private static let given = Locked<UInt>(0)

    /// The soft limit that this process was started with, for programs that it starts; 0 if it has not changed.
    package static var inherited: UInt { given.withLock { $0 } }

    /// Whether there is no descriptor left, for this process or in the system.
    static var isReached: Bool {
        let descriptor = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
        if descriptor >= 0 { close(descriptor) }
        return descriptor < 0 && (errno == EMFILE || errno == ENFILE)
    }

    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
}
