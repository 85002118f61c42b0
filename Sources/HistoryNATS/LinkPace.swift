/// How many bytes may be in flight on a link, so that a following message, such as a ping's answer or an
/// acknowledgement, does not wait long.
///
/// It starts with what a link of 16 kB/s carries in five seconds, and doubles while the link is faster.
package struct LinkPace: Sendable {
    /// A message's part with its headers. Even on the slowest link, a ping behind it is answered in time.
    package static let least = 72 << 10
    private static let most = 8 << 20
    private static let quick: Duration = .seconds(1)
    private static let slow: Duration = .seconds(3)

    /// In bytes.
    package private(set) var allowance: Int

    package init(allowance: Int = least) { self.allowance = allowance }

    /// - Parameters:
    ///   - bytes: The number of bytes in flight.
    ///   - time: How long it took.
    package mutating func carried(_ bytes: Int, in time: Duration) {
        if time > Self.slow {
            // As much as the link carries in two seconds.
            let bytesPerSecond = Double(bytes) / (time / .seconds(1))
            allowance = max(Self.least, min(allowance, Int(2 * bytesPerSecond)))
        } else if time < Self.quick, bytes >= allowance / 2 {
            allowance = min(2 * allowance, max(Self.most, allowance))
        }
    }

    /// Raises the allowance for a message that is larger.
    package mutating func mustCarryMore() { allowance = min(2 * allowance, 1 << 30) }
}
