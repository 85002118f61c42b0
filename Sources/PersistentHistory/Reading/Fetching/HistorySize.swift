import GRDB

/// The estimated size of a store's history. SQLite stores no sizes of tables, and this is queried every
/// few seconds, too often to read a whole history.
///
/// It measures sample changes, evenly distributed over the history. The estimate is their mean size times
/// the number of changes.
final class HistorySize: Sendable {
    /// How many changes are measured.
    static let samples = 64
    /// Measuring stops after this many bytes, because tombstones may be large.
    static let mostBytes: Int64 = 1 << 20
    /// The bytes that SQLite stores for a row in addition to its values: lengths, number, types, the
    /// pointer to its cell.
    static let overhead: Int64 = 12

    private let known = Locked<(floor: Int64, newest: Int64, bytes: Int64)?>(nil)

    /// The estimate, computed again only for another history.
    func bytes(in path: String, floor: Int64, newest: Int64) throws -> Int64 {
        if let known = known.withLock({ $0 }), known.floor == floor, known.newest == newest {
            return known.bytes
        }
        // Through a separate connection, so that deliveries do not wait for it.
        let bytes = try HistoryReader.reading(path, timeout: .milliseconds(200)) { db in
            try Self.estimate(db, floor: floor, newest: newest)
        }
        known.withLock { $0 = (floor, newest, bytes) }
        return bytes
    }

    /// The positions after which a change is measured. Any prefix of them is evenly distributed, too.
    static func positions(floor: Int64, newest: Int64) -> [Int64] {
        let (count, step) = (newest - floor, (newest - floor) / Int64(samples))
        guard step > 0 else { return count > 0 ? Array(floor..<newest) : [] }
        // 37 and 64 have no common divisor.
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
        // A damaged store may contain any number.
        let (product, overflows) = (bytes / count).multipliedReportingOverflow(by: newest - floor)
        return overflows ? .max : product
    }
}
