import GRDB

/// A call of a hook that was given up.
public struct DeadLetter: Sendable, Equatable {
    public let consumer: String
    public let hook: String
    public let delivery: String
    public let reason: String
    public let attempts: Int
    /// The call's parameters as JSON.
    public let call: String
    public let keptAt: HistoryTimestamp

    public init(
        consumer: String, hook: String, delivery: String, reason: String, attempts: Int, call: String,
        keptAt: HistoryTimestamp
    ) {
        self.consumer = consumer
        self.hook = hook
        self.delivery = delivery
        self.reason = reason
        self.attempts = attempts
        self.call = call
        self.keptAt = keptAt
    }
}

/// Dead letters, and their numbers for whoever looks through them.
extension StateDatabase {
    /// Keeps a call; once, also where it is made and given up again after a new start.
    public func keep(_ letter: DeadLetter) throws {
        try access { db in
            try db.execute(
                sql: """
                    UPDATE dead_letter SET reason = ?, attempts = attempts + ?, kept_at = ?
                    WHERE delivery = ? AND call = ?
                    """,
                arguments: [
                    letter.reason, letter.attempts, letter.keptAt.milliseconds, letter.delivery, letter.call,
                ])
            if db.changesCount > 0 { return }
            try db.execute(
                sql:
                    "INSERT INTO dead_letter (consumer, hook, delivery, reason, attempts, call, kept_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                arguments: [
                    letter.consumer, letter.hook, letter.delivery, letter.reason, letter.attempts, letter.call,
                    letter.keptAt.milliseconds,
                ])
        }
    }

    public func deadLetters() throws -> [DeadLetter] {
        try access { db in
            try Row.fetchAll(db, sql: "SELECT * FROM dead_letter ORDER BY id").map { row in
                DeadLetter(
                    consumer: row["consumer"], hook: row["hook"], delivery: row["delivery"],
                    reason: row["reason"],
                    attempts: row["attempts"], call: row["call"],
                    keptAt: HistoryTimestamp(milliseconds: row["kept_at"]))
            }
        }
    }

    /// How many there are, by consumer.
    func deadLetterCounts() throws -> [String: Int] {
        try access { db in
            let rows = try Row.fetchAll(
                try db.cachedStatement(sql: "SELECT consumer, count(*) AS n FROM dead_letter GROUP BY consumer"))
            return Dictionary(uniqueKeysWithValues: rows.map { ($0["consumer"] as String, $0["n"] as Int) })
        }
    }

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
