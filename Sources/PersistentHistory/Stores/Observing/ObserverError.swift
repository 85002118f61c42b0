internal import Glibc

/// Why a store cannot be observed, or its locks cannot be queried.
///
/// `code` is for programs, `message` says what failed, `hint` says what to do about it.
public struct ObserverError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is. New codes may be added.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        let name: String
        /// As text.
        public var description: String { name }

        /// `fs.inotify.max_user_watches` is used up.
        public static let tooManyWatches = Code(name: "tooManyWatches")
        /// `fs.inotify.max_user_instances` is used up.
        public static let tooManyInstances = Code(name: "tooManyInstances")
        /// The process or the system has no descriptor left.
        public static let tooManyDescriptors = Code(name: "tooManyDescriptors")
        /// The store, one of its files or its folder may not be read.
        public static let unreadable = Code(name: "unreadable")
        /// The store is not there.
        public static let missing = Code(name: "missing")
        /// The observer has ended, or is already running.
        public static let ended = Code(name: "ended")
        /// The process still holds locks on the store, which closing its descriptor would drop.
        public static let locksHeld = Code(name: "locksHeld")
        /// Any other refusal of the system.
        public static let system = Code(name: "system")
    }

    /// What kind of failure it is, for programs.
    public let code: Code
    /// What failed, and why, as human-readable text.
    public let message: String
    /// What to do about it.
    public let hint: String?
    /// The system's error number, if a system call failed.
    public let errno: Int32?

    init(_ code: Code, _ message: String, hint: String? = nil, errno: Int32? = nil) {
        self.code = code
        self.message = message
        self.hint = hint
        self.errno = errno
    }

    /// As text.
    public var description: String {
        guard let hint else { return message }
        return "\(message) \(hint)"
    }

    /// The error for a system call that failed with `number`; `what` completes "Cannot …".
    static func failed(to what: String, _ number: Int32) -> ObserverError {
        let (code, hint): (Code, String?) =
            switch number {
            // inotify_add_watch(2): "The user limit on the total number of inotify watches was reached".
            case ENOSPC: (.tooManyWatches, "Raise it: sysctl fs.inotify.max_user_watches=1048576.")
            case EMFILE, ENFILE: (.tooManyDescriptors, "Raise the limit of open files (LimitNOFILE=).")
            case EACCES, EPERM: (.unreadable, "Give the user of this process read access.")
            case ENOENT, ENOTDIR: (.missing, nil)
            default: (.system, nil)
            }
        let reason = code == .tooManyWatches ? "the limit of inotify watches is reached" : text(of: number)
        return ObserverError(code, "Cannot \(what): \(reason).", hint: hint, errno: number)
    }

    /// A lack of descriptors or memory says nothing of what is there, so that it counts neither as gone nor as empty.
    static func checkNoLack(_ number: Int32, to what: String) throws(ObserverError) {
        if [EMFILE, ENFILE, ENOMEM].contains(number) { throw failed(to: what, number) }
    }

    private static func text(of number: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let start = buffer.baseAddress, strerror_r(number, start, buffer.count) == 0 else {
                return "error \(number)"
            }
            return String(cString: start)
        }
    }
}
