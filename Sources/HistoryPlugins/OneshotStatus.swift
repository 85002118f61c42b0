import PersistentHistory

/// Exit statuses of sysexits(3) by which a oneshot plugin says whether to retry the call. The last line on its
/// standard error is the reason.
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
