import CSimulation
import PersistentHistory

/// What systemd is for the daemon: it reads what the daemon notifies it of.
struct ServiceManager: Sendable {
    /// How often the watchdog must be fed at least, in nanoseconds.
    static let watchdog: Int64 = 3_000_000_000

    let record: Record
    private let descriptor: Int32
    private let isReady = Locked(false)

    init(_ files: Files, _ record: Record) {
        self.record = record
        descriptor = csimulation_bind(files.notifications)
    }

    /// Whether the daemon has said so.
    var sawReady: Bool { isReady.withLock(\.self) }

    func run(onReady: () -> Void) {
        csimulation_be_world()
        var buffer = [UInt8](repeating: 0, count: 4096)
        while csimulation_await_input(descriptor, -1) {
            let count = csimulation_read(descriptor, &buffer, buffer.count)
            guard count > 0 else { continue }
            let lines = String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: "\n")
            if lines == ["WATCHDOG=1"] {
                record.write("watched")
                continue
            }
            record.write("notified", lines.joined(separator: " "))
            if lines.contains("READY=1") {
                isReady.withLock { $0 = true }
                onReady()
            }
        }
    }
}
