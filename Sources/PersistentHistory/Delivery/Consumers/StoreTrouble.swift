/// A store that could not be opened or read, perhaps several times in a row.
struct StoreTrouble {
    static let longestDelay: Duration = .seconds(30)

    private var pause = GrowingPause(longest: Self.longestDelay)
    private var said: String?
    /// How many times in a row the store was found to be damaged.
    private var damages = 0

    /// Whether a new connection has found damage as well.
    var isLastingDamage: Bool { damages > 1 }

    /// Whether to report an error. The same error is reported once, unless the store was reported as open
    /// in between. A lock is reported only if it lasts.
    mutating func isNews(_ error: HistoryError, wasOpen: Bool) -> Bool {
        if error.code == .storeBusy, !pause.isLasting { return false }
        defer { said = error.message }
        return wasOpen || said != error.message
    }

    /// How long to wait at least: opening and closing a store also makes events.
    mutating func delay(_ error: HistoryError, wasOpen: Bool) -> Duration {
        damages = error.code == .storeCorrupt ? damages + 1 : 0
        let longest: Duration =
            switch error.code {
            // Whoever replaces a store does so several times, and then waits for its commits.
            case .storeBusy, .storeInterrupted: .seconds(1)
            case _ where error.waitsForChange && !wasOpen: .seconds(1)
            // Free disk space comes without a sign.
            default: error.isOfState ? .seconds(5) : Self.longestDelay
            }
        return min(pause.next(), longest)
    }
}
