/// How many bytes may be under way on a link, so that what comes behind them need not wait long: an answer to a ping, or
/// an acknowledgement.
///
/// It begins with what a link of 16 kB/s carries in five seconds, and doubles while the link is faster.
package struct LinkPace: Sendable {
    /// A message's part and its headers. A ping is answered in time behind it on the slowest link.
    package static let least = 72 << 10
    private static let most = 8 << 20
    private static let quick: Duration = .seconds(1)
    private static let slow: Duration = .seconds(3)

    /// In bytes.
    package private(set) var allowance: Int

    package init(allowance: Int = least) { self.allowance = allowance }

    /// - Parameters:
    ///   - bytes: What was under way.
    ///   - time: How long it took.
    package mutating func carried(_ bytes: Int, in time: Duration) {
        if time > Self.slow {
            // What it carries in two seconds.
            let bytesPerSecond = Double(bytes) / (time / .seconds(1))
            allowance = max(Self.least, min(allowance, Int(2 * bytesPerSecond)))
        } else if time < Self.quick, bytes >= allowance / 2 {
            allowance = min(2 * allowance, max(Self.most, allowance))
        }
    }

    /// A message is larger than what was allowed.
    package mutating func mustCarryMore() { allowance = min(2 * allowance, 1 << 30) }
}
