/// How to write integers of rows for a program that may read numbers as doubles, as JavaScript does.
///
/// A double represents each integer up to 2^53 (`Number.MAX_SAFE_INTEGER` is 2^53 - 1). Beyond that,
/// several integers are read as the same number.
package enum LargeIntegers: String, Sendable, Hashable, CaseIterable {
    /// As a number, like all other integers.
    case number
    /// As a string of its digits.
    case text

    private static let largestSafe: Int64 = 1 << 53 - 1

    static func isLarge(_ integer: Int64) -> Bool { !(-largestSafe...largestSafe).contains(integer) }
}
