import ArgumentParser
import Glibc

/// The signals that are forwarded to a command in the foreground, and SIGCHLD for its end: blocked here, and
/// waited for.
struct ForwardedSignals {
    let set: sigset_t
    /// The signals that were blocked before, and stay blocked in the command.
    let before: sigset_t

    /// Call it before the program has other threads.
    init() {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD] { sigaddset(&set, signal) }
        var before = sigset_t()
        pthread_sigmask(SIG_BLOCK, &set, &before)
        self.set = set
        self.before = before
    }

    /// Takes a pending signal that asks the program to end.
    func takePending() -> Int32? {
        var pending = sigset_t()
        sigpending(&pending)
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] where sigismember(&pending, signal) == 1 {
            var one = sigset_t()
            sigemptyset(&one)
            sigaddset(&one, signal)
            var taken: Int32 = 0
            return sigwait(&one, &taken) == 0 ? taken : nil
        }
        return nil
    }
}

/// Runs a command with this program's terminal, input, output and environment, and waits until it ends.
struct ForegroundCommand {
    private let arguments: [String]
    private let signals: ForwardedSignals

    init(_ arguments: [String], _ signals: ForwardedSignals) {
        self.arguments = arguments
        self.signals = signals
    }

    /// - Returns: The command's exit status, or 128 plus the number of the signal that ended it.
    /// - Throws: `ValidationError` if it cannot be started, or its status cannot be determined.
    func run() throws -> Int32 {
        // A terminal's Ctrl-C before the command was started.
        if let signal = signals.takePending() { return 128 + signal }
        let process = try start()
        while true {
            var status: Int32 = 0
            let ended = waitpid(process, &status, WNOHANG)
            if ended == process {
                let signal = status & 0x7f
                return signal == 0 ? status >> 8 & 0xff : 128 + signal
            }
            if ended < 0, errno != EINTR {
                throw ValidationError(
                    "How \(arguments[0]) ended is not known: \(String(cString: strerror(errno))).")
            }
            var set = signals.set
            var info = siginfo_t()
            let signal = sigwaitinfo(&set, &info)
            // Signals from the terminal come from the kernel, which sends them to the command as well.
            if signal > 0, signal != SIGCHLD, info.si_code <= 0 { kill(process, signal) }
        }
    }

    private func start() throws -> pid_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var mask = signals.before
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        defer { for pointer in pointers { free(pointer) } }
        pointers.append(nil)
        var process: pid_t = 0
        let error = posix_spawnp(&process, arguments[0], nil, &attributes, pointers, environ)
        guard error == 0 else {
            throw ValidationError("\(arguments[0]) cannot be started: \(String(cString: strerror(error))).")
        }
        return process
    }
}
