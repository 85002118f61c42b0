import Glibc

/// The real daemon with a configuration of its own, and one coprocess plugin.
final class DaemonProcess {
    let stamps: StampReader
    let started: Int64
    let child: Child

    /// Starts it, and waits until it says that it is ready.
    init(_ workplace: Workplace, _ setup: DaemonSetup) throws {
        let folder = try workplace.makeFolder()
        stamps = try StampReader(named: "\(folder)/stamps")
        let configuration = try setup.write(
            to: folder, command: [workplace.program("bench-plugin"), "\(folder)/stamps"])
        let log = try FileBytes.create("\(folder)/log")
        defer { close(log) }
        let readiness = try ReadinessSocket("\(folder)/notify")
        started = Clock.now
        child = try Child(
            [workplace.historyd, "--config", configuration],
            environment: [
                "STATE_DIRECTORY=\(folder)/state", "RUNTIME_DIRECTORY=\(folder)",
                "NOTIFY_SOCKET=\(folder)/notify",
            ],
            errors: log)
        guard readiness.wait() else {
            child.end()
            throw BenchError("The daemon does not become ready:\n\(FileBytes.text(of: "\(folder)/log"))")
        }
    }

    func reading() throws -> ProcessReading { try ProcessReading(of: child.processID) }

    func end() { child.end() }
}
