import GRDB

/// A call of a hook that was given up.
package struct DeadLetter: Sendable, Equatable {
    package let consumer: String
    package let hook: String
    package let delivery: String
    package let reason: String
    package let attempts: Int
    /// The call's parameters as JSON.
    package let call: String
    package let keptAt: HistoryTimestamp
}

/// The dead letters of a store's consumers, with the numbers that they are known by.
struct DeadLetterStore: Sendable {
    let connection: StateConnection

    /// Keeps a call; once, even if it is made and given up again after a restart.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`, as everything here.
    func keep(_ letter: DeadLetter) throws {
        try connection.access { db in
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
                sql: """
                    INSERT INTO dead_letter (consumer, hook, delivery, reason, attempts, call, kept_at)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    letter.consumer, letter.hook, letter.delivery, letter.reason, letter.attempts, letter.call,
                    letter.keptAt.milliseconds,
                ])
        }
    }

    func all() throws -> [NumberedDeadLetter] {
        try connection.access { db in
            try Row.fetchAll(db, sql: "SELECT * FROM dead_letter ORDER BY id").map { row in
                NumberedDeadLetter(
                    number: try row.integer("id"),
                    letter: DeadLetter(
                        consumer: try row.text("consumer"), hook: try row.text("hook"),
                        delivery: try row.text("delivery"), reason: try row.text("reason"),
                        attempts: Int(try row.integer("attempts", in: 0...Int64(Int32.max))),
                        call: try row.text("call", atMost: .max),
                        keptAt: HistoryTimestamp(milliseconds: try row.integer("kept_at"))))
            }
        }
    }

    /// How many there are, by consumer; those of an earlier one whose name looks the same are its own, too.
    func counts() throws -> [String: Int] {
        try connection.access { db in
            let rows = try Row.fetchAll(
                try db.cachedStatement(sql: "SELECT consumer, count(*) AS n FROM dead_letter GROUP BY consumer")
            )
            return Dictionary(rows.map { ($0["consumer"] as String, $0["n"] as Int) }, uniquingKeysWith: +)
        }
    }

    /// The calls in a consumer's letters of what lies after a position.
    func calls(of consumer: String, after position: Int64) throws -> GivenUpCalls {
        try connection.access { db in
            let rows = try Row.fetchAll(
                try db.cachedStatement(
                    sql: """
                        SELECT delivery, call FROM dead_letter
                        WHERE consumer = ? AND CAST(substr(delivery, instr(delivery, ':') + 1) AS INTEGER) > ?
                        """), arguments: [consumer, position])
            return GivenUpCalls(
                try rows.map { (try $0.text("delivery"), try $0.text("call", atMost: .max)) })
        }
    }

    /// - Returns: False if there is none of that number.
    func drop(_ number: Int64) throws -> Bool {
        try connection.access { db in
            try db.execute(sql: "DELETE FROM dead_letter WHERE id = ?", arguments: [number])
            return db.changesCount > 0
        }
    }

    /// Counts another failed attempt.
    func countFailure(of number: Int64, _ reason: String) throws {
        try connection.access { db in
            try db.execute(
                sql: "UPDATE dead_letter SET attempts = attempts + 1, reason = ? WHERE id = ?",
                arguments: [reason, number])
        }
    }
}
