import FoundationEssentials
import Glibc
import PersistentHistory

/// A folder for everything that a run creates, and the programs that it starts. Both are removed at the end, also when
/// the run is interrupted.
final class Workplace: Sendable {
    /// The programs that are running.
    static let children = Locked<Set<pid_t>>([])

    let folder: String
    /// This program's own file.
    let bench: String
    let historyd: String
    let historydNATS: String
    let historyctl: String
    /// The programs in C.
    let consumer: String
    let plugin: String
    let stream: String
    let coreData: String
    /// The program in shell.
    let script: String
    /// A library that is preloaded when valgrind runs the daemon.
    let pidfd: String

    /// - Parameter historyd: The daemon to measure; nil for the one beside this program.
    init(historyd given: String?) throws {
        let file = FileManager.default
        bench = try file.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let folder = bench.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(
            separator: "/")
        historyd = given ?? "\(folder)/historyd"
        historydNATS = "\(folder)/historyd-nats"
        historyctl = "\(folder)/historyctl"
        coreData = "\(folder)/bench-coredata"
        consumer = "\(folder)/bench-consumer"
        plugin = "\(folder)/bench-plugin"
        stream = "\(folder)/bench-stream"
        script = "\(folder)/bench-consumer.sh"
        pidfd = "\(folder)/bench-pidfd.so"
        for program in [historyd, consumer, plugin] where !file.isExecutableFile(atPath: program) {
            throw BenchError("There is no program \"\(program)\": `make bench` builds it.")
        }
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/historyd-bench.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw BenchError.system("make a folder for the stores") }
        self.folder = template.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        leaveWhenInterrupted()
    }

    private static let made = Locked(0)

    /// A new folder in it. Its name is short, because the path of a socket must be.
    func makeFolder() throws -> String {
        try makeFolder(
            String(
                Self.made.withLock { count in
                    count += 1
                    return count
                }))
    }

    func makeFolder(_ name: String) throws -> String {
        let path = "\(folder)/\(name)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path
    }

    func remove(_ path: String) throws {
        try FileManager.default.removeItem(atPath: path)
    }

    func leave() {
        do {
            try FileManager.default.removeItem(atPath: folder)
        } catch {
            Progress.note("The folder of the stores could not be removed: \(error)")
        }
    }

    /// SIGINT and SIGTERM go to a thread that waits for them.
    private func leaveWhenInterrupted() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { context in
                guard let context else { return nil }
                Unmanaged<Workplace>.fromOpaque(context).takeRetainedValue().waitForSignal()
                return nil
            }, Unmanaged.passRetained(self).toOpaque())
        pthread_detach(thread)
    }

    private func waitForSignal() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        var signal: Int32 = 0
        sigwait(&signals, &signal)
        // This lock is never released, so that no program is started any more.
        Self.children.withLock { children in
            for child in children { kill(child, SIGKILL) }
            // The other thread may still make files.
            var tries = 0
            while tries < 100, access(folder, F_OK) == 0 {
                tries += 1
                do { try remove(folder) } catch { Clock.pause(microseconds: 10_000) }
            }
            _exit(128 + signal)
        }
    }
}
