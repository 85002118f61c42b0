import GRDB

/// The size of a store's history, estimated: SQLite keeps no size of a table, and reading a whole history to add it up
/// is not for something that is asked every few seconds.
///
/// Of the changes, spread evenly over the history, some are weighed. The estimate is their mean, times how many changes
/// there are.
final class HistorySize: Sendable {
    /// How many changes are weighed.
    static let samples = 64
    /// No more are weighed after so many bytes: tombstones may be large.
    static let mostBytes: Int64 = 1 << 20
    /// What SQLite stores for a row beside its values: lengths, number, types, the pointer to its cell.
    static let overhead: Int64 = 12

    private let known = Locked<(floor: Int64, newest: Int64, bytes: Int64)?>(nil)

    /// The estimate, which is made again only if the history is another one.
    func bytes(in path: String, floor: Int64, newest: Int64) throws -> Int64 {
        if let known = known.withLock({ $0 }), known.floor == floor, known.newest == newest {
            return known.bytes
        }
        // By a connection of its own, so that deliveries do not wait for it.
        let bytes = try HistoryReader.reading(path, timeout: .milliseconds(200)) { db in
            try Self.estimate(db, floor: floor, newest: newest)
        }
        known.withLock { $0 = (floor, newest, bytes) }
        return bytes
    }

    /// The positions after which a change is weighed, in an order in which each part of them is spread as evenly.
    static func positions(floor: Int64, newest: Int64) -> [Int64] {
        let (count, step) = (newest - floor, (newest - floor) / Int64(samples))
        guard step > 0 else { return count > 0 ? Array(floor..<newest) : [] }
        // 37 has no divisor in common with 64.
        return (0..<samples).map { floor + step * Int64($0 * 37 % samples) }
    }

    private static func estimate(_ db: Database, floor: Int64, newest: Int64) throws -> Int64 {
        var (count, bytes): (Int64, Int64) = (0, 0)
        for position in positions(floor: floor, newest: newest) where bytes < mostBytes {
            let row = try Row.fetchOne(
                try db.cachedStatement(
                    sql: """
                        SELECT ifnull(length(CAST(origin AS BLOB)), 0) + ifnull(length(CAST(object AS BLOB)), 0)
                            + ifnull(length(CAST(detail AS BLOB)), 0)
                        FROM historyd_change WHERE id > ? ORDER BY id LIMIT 1
                        """), arguments: [position])
            guard let weight = row.flatMap({ $0[0] as Int64? }) else { continue }
            count += 1
            bytes += weight + overhead
        }
        if count == 0 { return 0 }
        // A damaged store may have any numbers.
        let (product, overflows) = (bytes / count).multipliedReportingOverflow(by: newest - floor)
        return overflows ? .max : product
    }
}
