import FoundationEssentials
import Glibc
import Synchronization

/// A folder for everything that a run creates, and the programs that it starts. Both are removed at the end, also when
/// the run is interrupted.
final class Workplace: Sendable {
    /// The programs that are running.
    static let children = Mutex<Set<pid_t>>([])

    /// This program's own file, beside which are the others.
    static let bench = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""

    let folder: String
    let historyd: String

    /// - Parameter historyd: The daemon to measure; nil for the one beside this program.
    init(historyd given: String?) throws {
        historyd = given ?? Self.program("historyd")
        for program in [historyd] + ["historyctl", "bench-consumer", "bench-plugin"].map(Self.program)
        where !FileManager.default.isExecutableFile(atPath: program) {
            throw BenchError("There is no program \"\(program)\": `make bench` builds it.")
        }
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/historyd-bench.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw BenchError.system("make a folder for the stores") }
        self.folder = template.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        leaveWhenInterrupted()
    }

    /// A program that was built beside this one.
    static func program(_ name: String) -> String {
        let folder = bench.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        return (folder + [name[...]]).joined(separator: "/")
    }

    private static let made = Mutex(0)

    /// A new folder in it. Its name is short, because the path of a socket must be.
    func makeFolder() throws -> String {
        let number = Self.made.withLock { count in
            count += 1
            return count
        }
        let path = "\(folder)/\(number)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        return path
    }

    /// Removes what was made in it.
    func clear() {
        Progress.attempt {
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
            }
        }
    }

    func leave() { Progress.attempt { try FileManager.default.removeItem(atPath: folder) } }

    private static var interruptions: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        return signals
    }

    /// SIGINT and SIGTERM go to a thread that waits for them.
    private func leaveWhenInterrupted() {
        var signals = Self.interruptions
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
        var signals = Self.interruptions
        var signal: Int32 = 0
        sigwait(&signals, &signal)
        // This lock is never released, so that no program is started any more.
        Self.children.withLock { children in
            for child in children { kill(child, SIGKILL) }
            // The other thread may still make files.
            var tries = 0
            while tries < 100, access(folder, F_OK) == 0 {
                tries += 1
                do { try FileManager.default.removeItem(atPath: folder) } catch {
                    Clock.pause(microseconds: 10_000)
                }
            }
            _exit(128 + signal)
        }
    }
}
