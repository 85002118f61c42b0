import CPlatform
import FoundationEssentials
import Glibc
import HistoryConfiguration
import PersistentHistory

/// A running plugin process: the leader of its own process group, with three pipes.
///
/// It lives as long as `ChildProcess.run`, which leaves nothing behind: no process of the group, no zombie, no
/// descriptor. (Only a descendant that starts its own session, as with setsid(1), survives.)
struct ChildProcess: Sendable {
    let processID: pid_t
    let input: Descriptor
    let output: Descriptor
    let errors: Descriptor
    private let end: Descriptor

    /// Starts the plugin, runs the body concurrently, and then kills what is left of the process group.
    ///
    /// - Throws: `HookFailure` with the reason `cannotStart`; the body has not run then.
    static func run<Result: Sendable>(
        _ plugin: PluginConfiguration, adding environment: [String: String] = [:],
        isolation: isolated (any Actor)? = #isolation, body: (ChildProcess) async -> Result
    ) async throws(HookFailure) -> (Result, ProcessEnd) {
        // The program's file may be on a slow disk, and so may the credentials.
        let child = try await onPool { () throws(HookFailure) in
            // Failure messages use it, and the loop must not wait while it is read.
            _ = SandboxLimits.current
            return try start(plugin, adding: environment)
        }
        let result = await body(child)
        child.signalGroup(SIGKILL)
        while !child.hasEnded { _ = await child.end.waitUncancelled() }
        return (result, child.reap())
    }

    /// Waits until the leader has ended, or the task is cancelled. From then on nothing waits for the pipes,
    /// which other processes may hold open.
    func waitForEnd() async {
        while !hasEnded, !Task.isCancelled { _ = await end.wait() }
        input.expire()
        output.expire()
        errors.expire()
    }

    /// Signals the leader and all its descendants in its group.
    ///
    /// Call it only before `reap`: until then the kernel does not reuse the group's number.
    func signalGroup(_ signal: Int32) {
        // It fails only if no process is left in the group.
        _ = kill(-processID, signal)
    }

    private var hasEnded: Bool { cplatform_has_ended(processID) != 0 }

    private func reap() -> ProcessEnd {
        for descriptor in [input, output, errors, end] { descriptor.close() }
        var status: Int32 = 0
        var signal: Int32 = 0
        cplatform_reap(processID, &status, &signal)
        return signal == 0 ? .exited(status) : .signaled(signal)
    }
}

// MARK: - Starting

extension ChildProcess {
    private static func start(
        _ plugin: PluginConfiguration, adding environment: [String: String]
    ) throws(HookFailure) -> ChildProcess {
        let inherited = ProcessInfo.processInfo.environment
        let secrets = try secrets(of: plugin, in: inherited["CREDENTIALS_DIRECTORY"])
        do throws(SystemError) {
            return try spawn(
                plugin,
                environment: self.environment(
                    of: plugin, adding: environment.merging(secrets) { $1 }, inherited: inherited))
        } catch  where error.isOwnLack {
            throw HookFailure(
                .daemonLacks,
                "Plugin \"\(plugin.name)\" could not be started, because the daemon lacks something: \(error)."
            )
        } catch {
            // A check of the program says more than errno: ENOENT may refer to its interpreter.
            let program = plugin.command.first ?? ""
            let reason = CommandCheck.problem(of: program) ?? "\(error) (\(program))"
            throw HookFailure(.cannotStart, "Plugin \"\(plugin.name)\" could not be started: \(reason).")
        }
    }

    /// Reads the credentials at each start: the service manager may have renewed them.
    private static func secrets(of plugin: PluginConfiguration, in folder: String?) throws(HookFailure)
        -> [String: String]
    {
        var secrets: [String: String] = [:]
        for (variable, name) in plugin.credentials {
            func missing(_ why: String) -> HookFailure {
                HookFailure(
                    .cannotStart,
                    "Plugin \"\(plugin.name)\" needs the credential \"\(name)\" for \(variable): \(why). A line LoadCredential=\(name):/path/of/the/file in a drop-in of the unit provides it."
                )
            }
            guard let folder else { throw missing("the service manager has handed over none") }
            do throws(SystemError) {
                guard var bytes = try AtomicFile.read("\(folder)/\(name)") else {
                    throw SystemError(call: "open", number: ENOENT)
                }
                while bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
                // The kernel ends an environment variable at the first NUL.
                secrets[variable] = String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            } catch {
                throw missing("\(error)")
            }
        }
        return secrets
    }

    /// Variables by which the service manager addresses the daemon. Child processes must not inherit them: they
    /// would send notifications in its name (sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3)).
    private static let ownVariables = [
        "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
        "JOURNAL_STREAM", "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "SYSTEMD_EXEC_PID", "MAINPID", "MANAGERPID",
        "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CONFIGURATION_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY",
        "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
    ]

    static func environment(
        of plugin: PluginConfiguration, adding: [String: String], inherited: [String: String]
    ) -> [String] {
        var environment = inherited
        for name in ownVariables { environment[name] = nil }
        environment.merge(plugin.environment) { $1 }
        environment.merge(adding) { $1 }
        return environment.map { "\($0)=\($1)" }
    }

    private static func spawn(_ plugin: PluginConfiguration, environment: [String]) throws(SystemError)
        -> ChildProcess
    {
        assertMayWait()
        guard let program = plugin.command.first else { throw SystemError(call: "exec", number: ENOENT) }
        // A broken pipe must be an error of the write, and not end the daemon (pipe(7)).
        _ = brokenPipesAreErrors
        var pipes: [Pipe] = []
        defer { for pipe in pipes { close(pipe.theirs) } }
        do throws(SystemError) {
            for end in [HistoryLoop.Interest.writing, .reading, .reading] { pipes.append(try Pipe(for: end)) }
            var processID: pid_t = 0
            var pidfd: Int32 = -1
            let number = withCStrings(plugin.command) { arguments in
                withCStrings(environment) { environment in
                    cplatform_start(
                        program, arguments, environment,
                        pipes[0].theirs, pipes[1].theirs, pipes[2].theirs, DescriptorLimit.inherited,
                        &processID, &pidfd)
                }
            }
            guard number == 0 else { throw SystemError(call: "exec", number: number) }
            return try ChildProcess(
                processID: processID, input: pipes[0].ours, output: pipes[1].ours, errors: pipes[2].ours,
                end: watch(pidfd, of: processID))
        } catch {
            for pipe in pipes { pipe.ours.close() }
            throw error
        }
    }

    private static func watch(_ pidfd: Int32, of processID: pid_t) throws(SystemError) -> Descriptor {
        do throws(SystemError) {
            return try Descriptor(adopting: pidfd, for: .reading)
        } catch {
            var status: Int32 = 0
            var signal: Int32 = 0
            kill(-processID, SIGKILL)
            cplatform_reap(processID, &status, &signal)
            throw error
        }
    }

    private struct Pipe {
        let ours: Descriptor
        let theirs: Int32

        init(for interest: HistoryLoop.Interest) throws(SystemError) {
            var ends: [Int32] = [-1, -1]
            let number = cplatform_pipe(&ends)
            guard number == 0 else { throw SystemError(call: "pipe2", number: number) }
            let (reading, writing) = (ends[0], ends[1])
            theirs = interest == .reading ? writing : reading
            do throws(SystemError) {
                ours = try Descriptor(adopting: interest == .reading ? reading : writing, for: interest)
            } catch {
                close(theirs)
                throw error
            }
        }
    }

    private static let brokenPipesAreErrors: Void = {
        signal(SIGPIPE, SIG_IGN)
        return ()
    }()

    /// A null-terminated array of C strings, as execve(2) takes it.
    private static func withCStrings<Result>(
        _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        var pointers = strings.map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        return body(pointers)
    }
}

extension SystemError {
    /// Whether a process could not be started because the daemon lacks a resource: descriptors, processes,
    /// memory, or epoll(7) watches. The program is not at fault.
    var isOwnLack: Bool { [EMFILE, ENFILE, ENOMEM, EAGAIN, ENOSPC].contains(number) }
}
