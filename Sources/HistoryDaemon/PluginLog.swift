import HistoryControl
import HistoryPlugins
import Logging
import PersistentHistory

/// Reports what happens to one coprocess to the log, the status line and `historyctl`.
///
/// A coprocess that keeps ending is reported at the first end, once more when it is clear that it does not
/// recover, and then once an hour with the number of ends.
struct PluginLog: Sendable {
    let plugin: String
    let logger: Logger
    let status: LiveStatus
    private let pace = Locked(Pace())

    /// When a failing plugin is reported.
    struct Pace: Sendable {
        /// This many ends in a row are no accident.
        static let failing = 5
        static let interval: Duration = .seconds(3600)

        enum Word: Equatable { case first, failing, repeated }

        private var toldAt: ContinuousClock.Instant?

        /// - Parameter count: The failures in a row, this one included.
        /// - Returns: How to report a failure.
        mutating func word(count: Int, at now: ContinuousClock.Instant) -> Word {
            if count == 1 { return .first }
            guard count >= Self.failing else { return .repeated }
            if count > Self.failing, let toldAt, now - toldAt < Self.interval { return .repeated }
            toldAt = now
            return .failing
        }
    }

    func report(_ event: PluginEvent) {
        switch event {
        case .began: break
        case .ended(let failure, let count, let isReported, let restart):
            note(failure, count, isReported)
            switch pace.withLock({ $0.word(count: count, at: .now) }) {
            case .first: log(.pluginDied, "\(failure) It is started again.")
            case .failing: reportFailing(failure, count, restart)
            case .repeated: logger.debug("\(failure) It is started again in \(restart.text).", metadata: fields)
            }
        case .unstartable(let failure, let count, let isReported, let restart):
            note(failure, count, isReported)
            switch pace.withLock({ $0.word(count: count, at: .now) }) {
            case .failing: reportFailing(failure, count, restart)
            case _ where isReported:
                logger.debug("\(failure) It is tried again in \(restart.text).", metadata: fields)
            default: log(.pluginUnstartable, "\(failure) It is tried again in \(restart.text).")
            }
        case .works(let ends):
            status.update { $0.pluginWorks(plugin) }
            log(.pluginRestarted, "Plugin \"\(plugin)\" works again, after \(ends, "end") of its process.")
        }
    }

    private func note(_ failure: HookFailure, _ count: Int, _ isReported: Bool) {
        status.update {
            $0.pluginFailed(plugin, failure, isReported: isReported, isLasting: count >= Pace.failing)
        }
        status.reportCount()
    }

    private func reportFailing(_ failure: HookFailure, _ count: Int, _ restart: Duration) {
        log(
            .pluginFailing,
            "\(failure) This is the \(count)th time in a row. It is started again every \(restart.text); what it writes is logged at level debug."
        )
    }

    private func log(_ event: MessageCode, _ message: Logger.Message) {
        logger.report(event, message, metadata: fields)
    }

    private var fields: Logger.Metadata { ["plugin": "\(plugin)"] }
}
