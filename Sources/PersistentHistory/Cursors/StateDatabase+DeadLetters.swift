import GRDB

/// Dead letters by their number, for whoever looks through them.
extension StateDatabase {
    func numberedDeadLetters() throws -> [NumberedDeadLetter] {
        let numbers = try access { db in
            try Int64.fetchAll(db, sql: "SELECT id FROM dead_letter ORDER BY id")
        }
        return zip(numbers, try deadLetters()).map { NumberedDeadLetter(number: $0, letter: $1) }
    }

    /// - Returns: False where there is none of that number.
    func dropDeadLetter(_ number: Int64) throws -> Bool {
        try access { db in
            try db.execute(sql: "DELETE FROM dead_letter WHERE id = ?", arguments: [number])
            return db.changesCount > 0
        }
    }

    /// Notes another failed attempt.
    func noteFailure(of number: Int64, _ reason: String) throws {
        try access { db in
            try db.execute(
                sql: "UPDATE dead_letter SET attempts = attempts + 1, reason = ? WHERE id = ?",
                arguments: [reason, number])
        }
    }
}
