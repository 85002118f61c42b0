import PersistentHistory

/// Exit statuses by which a oneshot plugin says whether another attempt is worth it, as sysexits(3) has them. The last
/// line on its standard error is the reason.
enum OneshotStatus: Int32 {
    /// `EX_DATAERR`: this call will never succeed.
    case dataError = 65
    /// `EX_TEMPFAIL`: the call may succeed later.
    case temporaryFailure = 75

    var advice: HookFailure.Advice {
        switch self {
        case .dataError: .permanent
        case .temporaryFailure: .retryAfter(nil)
        }
    }
}
