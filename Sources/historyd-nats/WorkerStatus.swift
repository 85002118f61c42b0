import Foundation
import HistoryNATS
import PersistentHistory

/// The state of a publisher or a follower, as `historyd-nats status` shows it.
struct WorkerReport: Codable, Sendable {
    enum Role: String, Codable, Sendable { case publish, follow }

    let role: Role
    /// The stream's name.
    let name: String
    /// The store's or the mirror's file.
    let path: String
    var isConnected = false
    var epoch: Int64 = 0
    /// The number of the last change that is in the stream, or in the mirror.
    var position: Int64 = 0
    var groups = 0
    var bytes = 0
    /// The number of sessions that began, and that failed.
    var connections = 0
    var failures = 0
    /// Why the last session failed; nil if the current one works.
    var problem: String?
    /// When the position last changed, in seconds since 1970.
    var changed: Double?
}

final class WorkerStatus: Sendable {
    private let report: Locked<WorkerReport>

    init(_ role: WorkerReport.Role, name: String, path: String) {
        report = Locked(WorkerReport(role: role, name: name, path: path))
    }

    var current: WorkerReport { report.withLock { $0 } }

    /// - Returns: The failure that is over by it; nil if there was none.
    func connected(_ position: StreamPosition, epoch: Int64) -> String? {
        report.withLock { report in
            defer { report.problem = nil }
            report.isConnected = true
            report.connections += 1
            (report.position, report.epoch) = (position.number, epoch)
            return report.problem
        }
    }

    func moved(_ position: StreamPosition, bytes: Int) {
        let now = Date.now.timeIntervalSince1970
        report.withLock { report in
            report.position = position.number
            report.groups += 1
            report.bytes += bytes
            report.changed = now
        }
    }

    /// - Returns: Whether it is another failure than the last one: a failure that continues is reported once.
    func failed(_ error: any Error) -> Bool {
        report.withLock { report in
            defer { report.problem = "\(error)" }
            report.isConnected = false
            report.failures += 1
            return report.problem != "\(error)"
        }
    }
}

/// An error at the end of a message: some have their full stop.
func sentence(_ error: any Error) -> String {
    let text = "\(error)"
    return text.hasSuffix(".") ? text : text + "."
}
