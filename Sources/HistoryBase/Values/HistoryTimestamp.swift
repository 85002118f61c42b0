public import FoundationEssentials

/// The time of a transaction, in milliseconds since 1970-01-01T00:00:00Z.
///
/// It is for display and for comparison with durations. It never defines an order; tokens do.
public struct HistoryTimestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// Milliseconds since 1970, in UTC, in `range`.
    public let milliseconds: Int64

    /// 100,000,000 days on either side of 1970: the range of ECMAScript's Date, with years of six digits
    /// (https://tc39.es/ecma262/#sec-time-values-and-time-range).
    public static let range: ClosedRange<Int64> = -8_640_000_000_000_000...8_640_000_000_000_000

    /// A time in milliseconds since 1970.
    ///
    /// - Parameter milliseconds: A value outside of `range` becomes the nearest end of `range`, because a store may
    ///   contain any value.
    public init(milliseconds: Int64) {
        self.milliseconds = min(max(milliseconds, Self.range.lowerBound), Self.range.upperBound)
    }

    /// The wall clock, to the millisecond.
    public static var now: HistoryTimestamp {
        HistoryTimestamp(milliseconds: Int64((Date.now.timeIntervalSince1970 * 1000).rounded(.down)))
    }

    /// Whether one is earlier than another.
    public static func < (a: Self, b: Self) -> Bool { a.milliseconds < b.milliseconds }

    /// ISO 8601 in UTC with milliseconds: `2026-01-07T10:30:00.250Z`.
    public var description: String { withText { String(decoding: $0, as: UTF8.self) } }

    /// Passes the description's bytes to a closure.
    func withText<T>(_ body: (UnsafeBufferPointer<UInt8>) -> T) -> T {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32) { buffer in
            var length = 0
            func put(_ value: Int64, digits: Int) {
                var rest = value
                for index in stride(from: length + digits - 1, through: length, by: -1) {
                    buffer[index] = UInt8(ascii: "0") + UInt8(rest % 10)
                    rest /= 10
                }
                length += digits
            }
            func put(_ character: Unicode.Scalar) {
                buffer[length] = UInt8(ascii: character)
                length += 1
            }
            let (days, inDay) = milliseconds.dividedByFloor(86_400_000)
            let date = CivilDate(daysSince1970: days)
            if date.year < 0 { put("-") }
            put(abs(date.year), digits: abs(date.year) > 9999 ? 6 : 4)
            put("-")
            put(date.month, digits: 2)
            put("-")
            put(date.day, digits: 2)
            put("T")
            put(inDay / 3_600_000, digits: 2)
            put(":")
            put(inDay / 60_000 % 60, digits: 2)
            put(":")
            put(inDay / 1000 % 60, digits: 2)
            put(".")
            put(inDay % 1000, digits: 3)
            put("Z")
            return body(UnsafeBufferPointer(rebasing: buffer[..<length]))
        }
    }
}

/// A day of the proleptic Gregorian calendar.
struct CivilDate {
    let year: Int64
    let month: Int64
    let day: Int64

    /// Counts in eras of 400 years (146,097 days), with years that begin in March, so that the leap day
    /// is the last day of a year.
    init(daysSince1970 days: Int64) {
        let (era, dayOfEra) = (days + 719_468).dividedByFloor(146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }
}

extension Int64 {
    /// The quotient rounded down, and its remainder, which is never negative.
    @inline(__always)  // So that the divisor is known, and multiplication does.
    func dividedByFloor(_ divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let remainder = (self % divisor + divisor) % divisor
        return ((self - remainder) / divisor, remainder)
    }
}

/// The source of time: the wall clock, which may be set, and a clock that only runs forward. Tests supply
/// their own.
package struct HistoryClock: Sendable {
    /// The time of the wall clock.
    package let wall: @Sendable () -> HistoryTimestamp
    /// Monotonic time, which setting the clock does not change.
    package let elapsed: @Sendable () -> Duration

    /// The machine's clocks. No time elapses while it is suspended, because nothing can be served then.
    package static let system = HistoryClock(wall: { .now }, elapsed: { SuspendingClock.now - start })

    private static let start = SuspendingClock.now
}

extension Duration {
    package var milliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}

extension HistoryTimestamp {
    /// The time as a Foundation `Date`.
    public var date: Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
}
