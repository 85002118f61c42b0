package import PersistentHistory

/// What happens to the process of a coprocess plugin, for logs and counters.
package enum PluginEvent: Sendable {
    /// The process ended unexpectedly, and is started again.
    ///
    /// - Parameters:
    ///   - inARow: The ends without a sign of life in between: an answer, or some seconds of running.
    ///   - isTold: Whether a call failed by it, which reports it as well.
    ///   - restart: When it is started again.
    case ended(HookFailure, inARow: Int, isTold: Bool, restart: Duration)
    /// The process could not be started, and that is tried again.
    case unstartable(HookFailure, inARow: Int, isTold: Bool, restart: Duration)
    /// A process that had ended works again.
    case works(afterEnds: Int)
}
