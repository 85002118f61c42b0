package import PersistentHistory

/// Exit statuses of the programs, from sysexits(3): they tell a service manager or a script whether to try
/// again.
package enum ExitStatus: Int32, Error, Sendable {
    case ok = 0
    /// EX_USAGE: the command line is wrong.
    case usage = 64
    /// EX_DATAERR: a store is not a database or is damaged, a token belongs to another store, or SQL fails.
    case badData = 65
    /// EX_NOINPUT: a store does not exist.
    case noInput = 66
    /// EX_UNAVAILABLE: a store is not tracked, or a daemon does not run.
    case unavailable = 69
    /// EX_SOFTWARE.
    case internalError = 70
    /// EX_IOERR.
    case inputOutput = 74
    /// EX_TEMPFAIL: a lock is held, or a hook fails; try again later.
    case temporary = 75
    /// EX_NOPERM.
    case noPermission = 77
    /// EX_CONFIG.
    case configuration = 78

    /// The exit status for an error of the library.
    package init(_ error: HistoryError) {
        switch error.code {
        case .authorInvalid, .tokenInvalid: self = .usage
        case .storeMissing: self = .noInput
        case .storeCorrupt, .storeTooNew, .storeCopied, .formatTooNew, .notAnEntity, .isMirror, .onlyRead,
            .tokenForeign,
            .tokenAhead, .tokenNotSent, .statementFailed:
            self = .badData
        case .storeUnreadable, .wouldLockOut, .stateNotPermitted: self = .noPermission
        case .storeBusy, .storeInterrupted, .tooManyFiles, .noRandomness: self = .temporary
        case .notTracked, .tokenExpired: self = .unavailable
        case .stateInUse, .storeServedElsewhere, .consumerInUse: self = .temporary
        case .storeFull, .replicaUnwritable, .controlSocket, .stateUnusable, .stateFull, .stateReadOnly,
            .stateDamaged:
            self = .inputOutput
        default: self = .internalError
        }
    }
}
