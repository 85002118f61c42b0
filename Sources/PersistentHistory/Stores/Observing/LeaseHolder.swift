internal import Glibc

/// The process that a lease names, as far as the system shows it.
///
/// Any process that may read a store can lock a byte of it, and the process that the byte names need not
/// exist.
struct LeaseHolder: Sendable, CustomStringConvertible {
    private enum Finding {
        /// It has the store open, or may have: another user's open files are not visible.
        case process(String)
        /// It may be in another container.
        case hidden
        case none
    }

    private let process: pid_t
    private let finding: Finding

    init(process: pid_t, file: FileID) {
        self.process = process
        finding = Self.find(process, file)
    }

    /// Whether such a process may exist and serve the store.
    var isPlausible: Bool {
        if case .none = finding { false } else { true }
    }

    var description: String {
        switch finding {
        case .process(let name): "process \(process) (\(name))"
        case .hidden, .none: "a process that is not visible here and has the number \(process) where it runs"
        }
    }

    /// A process in a container has another number here than there. Both are checked.
    private static func find(_ process: pid_t, _ file: FileID) -> Finding {
        guard let folder = opendir("/proc") else { return .hidden }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            guard let number = pid_t(OpenFiles.name(of: entry)), numbers(of: number).contains(process),
                mayHaveOpen(file, number)
            else { continue }
            let name = AtomicFile.text("/proc/\(number)/comm").prefix { !$0.isNewline }
            return .process(name.isEmpty ? "unknown" : String(name))
        }
        return seesAll ? .none : .hidden
    }

    /// The process's number in each container that it is in. Source: proc_pid_status(5).
    private static func numbers(of process: pid_t) -> [pid_t] {
        let line = AtomicFile.text("/proc/\(process)/status").split(separator: "\n").first {
            $0.hasPrefix("NSpid:")
        }
        return [process] + (line?.split { $0 == "\t" || $0 == " " }.dropFirst().compactMap { pid_t($0) } ?? [])
    }

    private static func mayHaveOpen(_ file: FileID, _ process: pid_t) -> Bool {
        let path = "/proc/\(process)/fd"
        guard let folder = opendir(path) else { return errno == EACCES || errno == EPERM }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            if FileID(of: "\(path)/\(OpenFiles.name(of: entry))") == file { return true }
        }
        return false
    }

    /// Whether this process can see all others. The first PID namespace has a number of its own:
    /// PROC_PID_INIT_INO in the kernel's proc_ns.h.
    private static var seesAll: Bool {
        var status = stat()
        return stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == 0xEFFF_FFFC
    }
}
