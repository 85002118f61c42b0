import Glibc
import Synchronization

/// A program that runs on behalf of a benchmark.
final class Child {
    let processID: pid_t
    /// As kill(2) takes it: the process, or its group.
    private let target: pid_t
    private var isRunning = true

    /// - Parameters:
    ///   - input: Its standard input; nil for none.
    ///   - output: Its standard output; nil for nowhere.
    ///   - errors: Its standard error; nil for this program's.
    ///   - isGroup: Whether it starts a process group, for what it starts itself.
    init(
        _ command: [String], environment: [String] = [], input: Int32? = nil, output: Int32? = nil,
        errors: Int32? = nil, isGroup: Bool = false
    ) throws(BenchError) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (given, number) in [(input, STDIN_FILENO), (output, STDOUT_FILENO)] {
            if let given {
                posix_spawn_file_actions_adddup2(&actions, given, number)
            } else {
                posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0)
            }
        }
        if let errors { posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO) }

        // This program keeps signals for a thread of its own; its children do not.
        var attributes = posix_spawnattr_t()
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_init(&attributes)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | (isGroup ? POSIX_SPAWN_SETPGROUP : 0)))
        defer { posix_spawnattr_destroy(&attributes) }

        // At once with its entry, so that none is forgotten where everything is to end.
        let (status, processID) = Workplace.children.withLock { children in
            var processID = pid_t()
            let status = Self.withCStrings(command) { arguments in
                Self.withCStrings(environment) {
                    posix_spawn(&processID, command[0], &actions, &attributes, arguments, $0)
                }
            }
            if status == 0 { children.insert(isGroup ? -processID : processID) }
            return (status, processID)
        }
        guard status == 0 else { throw .system("start '\(command[0])'", status) }
        self.processID = processID
        target = isGroup ? -processID : processID
    }

    deinit { end() }

    /// Terminates it, and its group if it leads one, and waits until it has ended.
    func end(by signal: Int32 = SIGTERM) {
        guard isRunning else { return }
        isRunning = false
        kill(target, signal)
        wait()
    }

    /// Runs a program to its end.
    static func run(_ command: [String]) throws(BenchError) {
        guard try Child(command).waitForEnd().status == 0 else {
            throw BenchError("\(command.joined(separator: " ")) failed.")
        }
    }

    /// How a program ended.
    struct End {
        /// As wait(2) gives it: 0 for success.
        let status: Int32
        /// Time on a processor, in seconds.
        let processor: Double
    }

    /// Waits until it has ended by itself.
    func waitForEnd() -> End {
        guard isRunning else { return End(status: 0, processor: 0) }
        isRunning = false
        return wait()
    }

    @discardableResult
    private func wait() -> End {
        var status: Int32 = 0
        var usage = rusage()
        while wait4(processID, &status, 0, &usage) < 0, errno == EINTR {}
        Workplace.children.withLock { _ = $0.remove(target) }
        let times = [usage.ru_utime, usage.ru_stime].map { Double($0.tv_sec) + Double($0.tv_usec) / 1e6 }
        return End(status: status, processor: times[0] + times[1])
    }

    /// Both ends of a pipe, which no other child inherits.
    static func pipe() throws(BenchError) -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { throw .system("make a pipe") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// A null-terminated array of C strings, as execve(2) takes it.
    private static func withCStrings<T>(
        _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> T
    ) -> T {
        var pointers = strings.map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        return body(pointers)
    }
}
