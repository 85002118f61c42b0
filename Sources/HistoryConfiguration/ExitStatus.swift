package import PersistentHistory

/// How the programs end: the statuses of sysexits(3), so that a service manager and a script can
/// tell what is worth trying again.
package enum ExitStatus: Int32, Error, Sendable {
    case ok = 0
    /// EX_USAGE: the program was called in a wrong way.
    case usage = 64
    /// EX_DATAERR: a store is no database, or damaged; a token is not of it; SQL that fails.
    case badData = 65
    /// EX_NOINPUT: a store is not there.
    case noInput = 66
    /// EX_UNAVAILABLE: what is asked for is not there: a store is not tracked, a daemon does not run.
    case unavailable = 69
    /// EX_SOFTWARE.
    case internalError = 70
    /// EX_IOERR.
    case inputOutput = 74
    /// EX_TEMPFAIL: a lock, a hook that fails: try again later.
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
