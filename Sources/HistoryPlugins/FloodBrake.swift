import PersistentHistory

/// Slows down the reading of what is thrown away: a plugin that writes without end is to wait, not
/// to keep a processor busy. A plugin that writes much now and then does not notice.
struct FloodBrake {
    private static let pause: Duration = .milliseconds(20)

    /// How much may be thrown away between two pauses.
    private let limit: Int
    private var thrownAway = 0

    init(bytes limit: Int) { self.limit = limit }

    mutating func brake(after count: Int) async {
        thrownAway += count
        guard thrownAway >= limit else { return }
        thrownAway = 0
        // It throws only when it is cancelled, and then there is nothing more to read.
        try? await Task.sleep(for: Self.pause, clock: .loop)
    }
}
