/// A date and time as SQLite stores them without a date type: as text, or as seconds since 1970
/// (https://www.sqlite.org/lang_datefunc.html#time_values).
///
/// The accepted forms are `YYYY-MM-DD`, alone or followed by a space or `T` and `HH:MM`, `HH:MM:SS` or
/// `HH:MM:SS.SSS`, and then by `Z` or `+HH:MM` or `-HH:MM`. A time without a day, which SQLite places in
/// the year 2000, and a Julian day are not accepted: they would become a false date.
package struct SQLiteDate {
    /// Whole seconds since 1970, rounded down.
    private let seconds: Int64
    /// Decimal digits of the fraction of a second, without trailing zeros.
    private let fraction: Substring

    /// The years that ISO 8601 writes with four digits.
    private static let range: ClosedRange<Int64> = -62_167_219_200...253_402_300_799

    private init?(seconds: Int64, fraction: Substring) {
        guard Self.range.contains(seconds) else { return nil }
        self.seconds = seconds
        var fraction = fraction
        while fraction.last == "0" { fraction.removeLast() }
        self.fraction = fraction
    }

    package init?(secondsSince1970 seconds: Int64) {
        self.init(seconds: seconds, fraction: "")
    }

    /// Uses the fraction of the number's shortest text. It is exact where a binary fraction is not: 1.1
    /// is a tenth after the second, not 100 ms and 89 billionths.
    ///
    /// A real that is a Julian day of the years 0 to 9999, as SQLite's julianday() returns it, is not
    /// accepted. (The seconds of some weeks of 1970 cannot be distinguished from it.)
    package init?(secondsSince1970 real: Double) {
        if (1_721_059.5..<5_373_484.5).contains(real) { return nil }
        self.init(real, after: 0)
    }

    /// A date as Core Data stores it (`timeIntervalSinceReferenceDate`).
    package init?(secondsSince2001 real: Double) { self.init(real, after: 978_307_200) }

    private init?(_ real: Double, after start: Int64) {
        let whole = real.rounded(.down)
        guard abs(whole) < 1e12 else { return nil }
        let text = abs(real).description
        // A number below 0.001 has an exponent and a negligible fraction.
        guard !text.contains("e"), let point = text.firstIndex(of: ".") else {
            self.init(seconds: start + Int64(real.rounded()), fraction: "")
            return
        }
        let digits = text[text.index(after: point)...]
        self.init(seconds: start + Int64(whole), fraction: real < 0 ? Self.complement(of: digits) : digits)
    }

    package init?(_ text: String) {
        var reader = Reader(rest: text.utf8[...])
        guard let year = reader.number(4), reader.take("-"), let month = reader.number(2, in: 1...12),
            reader.take("-"), let day = reader.number(2, in: 1...31)
        else { return nil }
        var seconds = CivilDate.daysSince1970(year: year, month: month, day: day) * 86_400
        var fraction: Substring = ""
        if reader.take("T") || reader.take(" ") {
            guard let hour = reader.number(2, in: 0...24), reader.take(":"),
                let minute = reader.number(2, in: 0...59)
            else { return nil }
            seconds += hour * 3600 + minute * 60
            if reader.take(":") {
                guard let second = reader.number(2, in: 0...59) else { return nil }
                seconds += second
                if reader.take(".") {
                    fraction = reader.digits()
                    guard !fraction.isEmpty else { return nil }
                }
            }
            guard let offset = reader.offset() else { return nil }
            seconds -= offset
        }
        guard reader.rest.isEmpty else { return nil }
        self.init(seconds: seconds, fraction: fraction)
    }

    /// In UTC with `Z`. A fraction, if any, has three digits or as many as it needs.
    package var iso8601: String {
        let text = String(HistoryTimestamp(milliseconds: seconds * 1000).description.dropLast(".000Z".count))
        if fraction.isEmpty { return text + "Z" }
        return text + "." + fraction + String(repeating: "0", count: max(0, 3 - fraction.count)) + "Z"
    }

    func timestamp(roundingUp: Bool) -> HistoryTimestamp {
        let digits = (fraction + "000").prefix(3)
        let isFiner = roundingUp && fraction.count > 3
        return HistoryTimestamp(milliseconds: seconds * 1000 + (Int64(digits) ?? 0) + (isFiner ? 1 : 0))
    }

    /// The digits of 1 minus this fraction: the distance of a negative number from the second below it.
    private static func complement(of digits: Substring) -> Substring {
        var digits = digits
        while digits.last == "0" { digits.removeLast() }
        guard let last = digits.popLast()?.wholeNumberValue else { return "" }
        let others = digits.map { String(9 - ($0.wholeNumberValue ?? 0)) }.joined()
        return Substring(others + String(10 - last))
    }

    private struct Reader {
        var rest: Substring.UTF8View

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        mutating func digits() -> Substring {
            let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            rest = rest[digits.endIndex...]
            return Substring(digits)
        }

        mutating func number(_ count: Int, in range: ClosedRange<Int64> = 0...9999) -> Int64? {
            let digits = digits()
            guard digits.utf8.count == count, let number = Int64(digits), range.contains(number) else {
                return nil
            }
            return number
        }

        /// Seconds east of Greenwich; 0 (UTC) if the text names no zone.
        mutating func offset() -> Int64? {
            while take(" ") {}
            if rest.isEmpty || take("Z") || take("z") { return 0 }
            let west = take("-")
            guard west || take("+"), let hours = number(2, in: 0...14), take(":"),
                let minutes = number(2, in: 0...59)
            else { return nil }
            return (hours * 3600 + minutes * 60) * (west ? -1 : 1)
        }
    }
}

extension HistoryTimestamp {
    /// Reads a date with an optional time and zone. Without a zone it is UTC.
    ///
    /// - Parameter roundingUp: Whether a fraction finer than milliseconds is rounded up.
    /// - Returns: Nil for an invalid date, such as a day that its month does not have.
    package init?(iso8601 text: String, roundingUp: Bool = false) {
        guard let date = SQLiteDate(text), let day = SQLiteDate(String(text.prefix(10))),
            day.iso8601.hasPrefix(text.prefix(10))
        else { return nil }
        self = date.timestamp(roundingUp: roundingUp)
    }
}

extension CivilDate {
    /// The inverse of `init(daysSince1970:)`. A day beyond the end of its month counts into the next one,
    /// as in SQLite.
    static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
        let marchYear = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = marchYear.dividedByFloor(400)
        let marchMonth = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * marchMonth + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}
