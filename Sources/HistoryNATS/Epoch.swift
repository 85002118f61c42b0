/// The number of a line of history in a stream. It increases when the stream does not continue its earlier content.
///
/// A new epoch is a time, in milliseconds since 1970: so it follows also those that only a mirror still knows.
package enum Epoch {
    /// The epoch after all that are known.
    package static func next(after known: Int64?, at now: Int64) -> Int64 {
        // What is known was read within `range`.
        max((known ?? 0) + 1, now)
    }

    /// The epochs that a message may name. One that is later than any clock would leave no room for the next.
    package static func range(at now: Int64) -> ClosedRange<Int64> { 1...max(1, now) + century }

    private static let century: Int64 = 100 * 366 * 86_400_000
}
