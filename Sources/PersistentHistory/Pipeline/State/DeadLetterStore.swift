import GRDB

/// A call of a hook that was given up.
package struct DeadLetter: Sendable, Equatable {
    package let consumer: String
    package let hook: String
    package let delivery: String
    /// The kind of call. One that reports lost history is repeated as such.
    package let method: CallJSON.Method
    package let reason: String
    package let attempts: Int
    /// The call's parameters as JSON.
    package let call: String
    package let keptAt: HistoryTimestamp
}

/// The dead letters of a store's consumers, with their numbers.
struct DeadLetterStore: Sendable {
    let connection: StateConnection

    /// Stores a call. It is stored once, even if it is repeated and given up again after a restart.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`, like everything here.
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
                    INSERT INTO dead_letter (consumer, hook, delivery, reason, attempts, call, kept_at, method)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    letter.consumer, letter.hook, letter.delivery, letter.reason, letter.attempts, letter.call,
                    letter.keptAt.milliseconds, letter.method.rawValue,
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
                        delivery: try row.text("delivery"), method: try method(row),
                        reason: try row.text("reason"),
                        attempts: Int(try row.integer("attempts", in: 0...Int64(Int32.max))),
                        call: try row.text("call", atMost: .max),
                        keptAt: HistoryTimestamp(milliseconds: try row.integer("kept_at"))))
            }
        }
    }

    /// A letter of an earlier version has no method: it follows from the call.
    private func method(_ row: Row) throws -> CallJSON.Method {
        if let method = try row.optionalText("method").flatMap(CallJSON.Method.init) { return method }
        return try CallJSON.Method(ofKept: row.text("call", atMost: .max))
    }

    /// The number of letters by consumer. Those of a former consumer whose name looks the same count as its
    /// own, too.
    func counts() throws -> [String: Int] {
        try connection.access { db in
            let rows = try Row.fetchAll(
                try db.cachedStatement(sql: "SELECT consumer, count(*) AS n FROM dead_letter GROUP BY consumer")
            )
            return Dictionary(rows.map { ($0["consumer"] as String, $0["n"] as Int) }, uniquingKeysWith: +)
        }
    }

    /// The calls in a consumer's letters for transactions after a position.
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

    /// - Returns: False if there is no such letter.
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

/// A dead letter with its number in the store.
package struct NumberedDeadLetter: Sendable, Equatable {
    package let number: Int64
    package let letter: DeadLetter
}
