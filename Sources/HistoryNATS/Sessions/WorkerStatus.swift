import Foundation
import HistoryMirrors
import PersistentHistory

/// The status of a publisher or a follower.
package final class WorkerStatus: Sendable {
    private struct State {
        var report: WorkerReport
        /// Since when it lacks, or may lack, something; nil while it is caught up.
        var behindSince: ContinuousClock.Instant? = .now
        var failingSince: ContinuousClock.Instant?
        var lastForeign: ForeignNote?
        var failures = FailureReports()
        var lack: FreeSpace.Lack?

        mutating func fail() {
            if failingSince == nil { failingSince = .now }
            if behindSince == nil { behindSince = .now }
        }
    }

    private let state: Locked<State>
    /// Called when the service manager's status line may have changed.
    private let changed: @Sendable () -> Void

    package init(_ role: WorkerReport.Role, name: String, path: String, changed: @escaping @Sendable () -> Void)
    {
        state = Locked(State(report: WorkerReport(role, name: name, path: path)))
        self.changed = changed
    }

    /// The report without the current lag.
    package var plain: WorkerReport { state.withLock { $0.report } }

    /// The report with the current lag.
    package var current: WorkerReport {
        let (report, since, failingSince) = state.withLock { ($0.report, $0.behindSince, $0.failingSince) }
        var current = report
        let now = Date.now.timeIntervalSince1970
        current.lag.seconds = since.map { (.now - $0) / .seconds(1) } ?? 0
        // As if the clock had never been set.
        current.failingSince = failingSince.map { now - (.now - $0) / .seconds(1) }
        if since == nil { current.lag.transactions = 0 }
        if report.role == .publish, report.epoch > 0,
            let backlog = try? HistoryReader.backlog(of: report.path, after: report.position)
        {
            let oldest = backlog.entries.first.map { now - Double($0.timestamp.milliseconds) / 1000 }
            current.lag = WorkerLag(
                transactions: backlog.entries.count, isAtLeast: backlog.isWhole ? nil : true,
                seconds: max(0, oldest ?? 0))
        }
        return current
    }

    /// - Returns: The reported failure that ends with this; nil if there was none.
    func connected(_ position: StreamPosition, of store: String, epoch: Int64) -> String? {
        let problem = state.withLock { state -> String? in
            defer { (state.report.problem, state.failingSince) = (nil, nil) }
            state.report.isConnected = true
            state.report.needsOperator = false
            state.report.connections += 1
            (state.report.position, state.report.epoch, state.report.store) = (position.number, epoch, store)
            return state.failures.wasReported ? state.report.problem : nil
        }
        changed()
        return problem
    }

    func moved(_ position: MirrorPosition, bytes: Int) {
        moved(position.position, of: position.store, epoch: position.epoch, bytes: bytes)
    }

    func moved(_ position: StreamPosition, of store: String, epoch: Int64, bytes: Int) {
        let now = Date.now.timeIntervalSince1970
        state.withLock { state in
            (state.report.position, state.report.epoch, state.report.store) = (position.number, epoch, store)
            state.report.groups += bytes > 0 ? 1 : 0
            state.report.bytes += bytes
            state.report.changed = now
        }
    }

    /// Notes whether the stream or the mirror is caught up.
    ///
    /// - Parameters:
    ///   - isLevel: Whether it has everything.
    ///   - obstacle: Why it can have nothing more at the moment.
    func isLevel(_ isLevel: Bool, obstacle: String?) {
        if let obstacle { return waits(obstacle) }
        let isOver = state.withLock { state in
            defer { (state.report.problem, state.failingSince) = (nil, nil) }
            state.behindSince = isLevel ? nil : state.behindSince ?? .now
            return state.report.problem != nil
        }
        if isOver { changed() }
    }

    /// - Returns: Whether the failure differs from the last one: a failure that continues is reported once.
    func failed(_ error: any Error, isRefusal: Bool) -> Bool {
        let isNew = state.withLock { state in
            defer { state.report.problem = "\(error)" }
            state.report.isConnected = false
            state.report.failures += 1
            state.report.refusals += isRefusal ? 1 : 0
            state.report.needsOperator = isRefusal
            state.fail()
            return state.report.problem != "\(error)"
        }
        if isNew { changed() }
        return isNew
    }

    /// - Returns: How many failures of this kind were not reported; nil if this one is not to be reported
    ///   either.
    func report(_ error: any Error) -> Int? {
        state.withLock { $0.failures.take("\(error)", at: .now) }
    }

    /// The session works, but waits for something.
    func waits(_ reason: String) {
        let isNew = state.withLock { state in
            defer { state.report.problem = reason }
            state.report.isConnected = true
            state.fail()
            return state.report.problem != reason
        }
        if isNew { changed() }
    }

    /// Notes that stream and store, or stream and mirror, were compared.
    func compared() {
        let now = Date.now.timeIntervalSince1970
        state.withLock { $0.report.compared = now }
    }

    /// Notes a problem that does not stop the session.
    ///
    /// - Parameter warning: Nil once there is none.
    /// - Returns: Whether the warning has changed.
    @discardableResult
    func warns(_ warning: String?) -> Bool {
        state.withLock { state in
            defer { state.report.warning = warning }
            return state.report.warning != warning
        }
    }

    /// Notes a message of the publisher, which has arrived or is the last one in the stream.
    ///
    /// - Parameters:
    ///   - header: The message's header.
    ///   - isLevel: Whether the mirror has everything up to it.
    func heard(_ header: GroupHeader, isLevel: Bool) {
        guard let time = header.time else { return }
        let now = Date.now.timeIntervalSince1970
        state.withLock { state in
            let sent = Double(time) / 1000
            // The clocks of two machines may differ.
            state.report.heard = max(state.report.heard ?? 0, min(now, sent))
            state.report.beat = header.beat.map { Double($0) / 1000 }
            if isLevel { state.report.asOf = sent }
        }
    }

    /// How many bytes must be free before it continues; nil if there is enough space.
    var lack: FreeSpace.Lack? { state.withLock { $0.lack } }

    func lacks(_ lack: FreeSpace.Lack?) { state.withLock { $0.lack = lack } }

    func refused() { state.withLock { $0.report.refusals += 1 } }

    /// Counts a foreign message.
    ///
    /// - Returns: Whether to log it: the first one, and then at each power of ten.
    func isForeign(_ note: ForeignNote) -> Bool {
        state.withLock { state in
            // The same message is found again at each check of the stream's end.
            guard state.lastForeign.map({ $0.stream != note.stream || $0.sequence < note.sequence }) ?? true
            else {
                return false
            }
            state.lastForeign = note
            state.report.foreign += 1
            var count = state.report.foreign
            while count % 10 == 0 { count /= 10 }
            return count == 1
        }
    }
}

/// An error as the end of a sentence, with exactly one full stop.
package func sentence(_ error: any Error) -> String { "\(error)".asSentence }
