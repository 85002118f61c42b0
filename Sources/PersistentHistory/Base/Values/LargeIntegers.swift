/// How integers of rows are written for a program that may read numbers as doubles, as JavaScript does.
///
/// A double holds each integer up to 2^53 (`Number.MAX_SAFE_INTEGER` is 2^53 - 1); beyond, several are read as one.
package enum LargeIntegers: String, Sendable, Hashable, CaseIterable {
    /// As a number, like all others.
    case number
    /// As text of its digits.
    case text

    private static let largestSafe: Int64 = 1 << 53 - 1

    static func isLarge(_ integer: Int64) -> Bool { !(-largestSafe...largestSafe).contains(integer) }
}
