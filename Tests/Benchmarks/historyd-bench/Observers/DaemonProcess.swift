import Glibc

/// The real daemon with a configuration of its own, and one coprocess plugin.
final class DaemonProcess {
    let stamps: StampReader
    let started: Int64
    let child: Child
    /// Of its control socket.
    let socket: String

    /// Starts it, and waits until it says that it is ready.
    ///
    /// - Parameter program: The command that runs the daemon if it is not run by itself.
    init(
        _ workplace: Workplace, _ setup: DaemonSetup, program: [String]? = nil, environment: [String] = []
    ) throws {
        let folder = try workplace.makeFolder()
        stamps = try StampReader(named: "\(folder)/stamps")
        let configuration = try setup.write(
            to: folder, command: [Workplace.program("bench-plugin"), "\(folder)/stamps"])
        let log = try FileBytes.create("\(folder)/log")
        defer { close(log) }
        let readiness = try ReadinessSocket("\(folder)/notify")
        socket = "\(folder)/control.sock"
        started = Clock.now
        child = try Child(
            (program ?? [workplace.historyd]) + ["--config", configuration],
            environment: [
                "STATE_DIRECTORY=\(folder)/state", "RUNTIME_DIRECTORY=\(folder)",
                "NOTIFY_SOCKET=\(folder)/notify",
            ] + environment,
            errors: log)
        guard readiness.wait() else {
            child.end()
            throw BenchError("The daemon does not become ready:\n\(FileBytes.text(of: "\(folder)/log"))")
        }
    }

    func reading() throws -> ProcessReading { try ProcessReading(of: child.processID) }

    func end() { child.end() }
}

/// The socket on which the daemon reports that it is ready, as to the service manager (sd_notify(3)).
struct ReadinessSocket: ~Copyable {
    private let descriptor: Int32

    init(_ path: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw BenchError("The path of the stores' folder is too long for a socket.")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard isBound else { throw BenchError.system("make a socket") }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit { close(descriptor) }

    /// False if the daemon reports nothing for half a minute.
    func wait() -> Bool {
        var message = [UInt8](repeating: 0, count: 4096)
        var source = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while poll(&source, 1, 30_000) > 0 {
            let count = recv(descriptor, &message, message.count, 0)
            guard count > 0 else { return false }
            if String(decoding: message[..<count], as: UTF8.self).split(separator: "\n").contains("READY=1") {
                return true
            }
        }
        return false
    }
}
