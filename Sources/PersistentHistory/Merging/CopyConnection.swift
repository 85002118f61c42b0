import GRDB

/// How a file that holds a copy of a store's rows, a replica or a mirror, is written.
enum CopyConnection {
    static func configuration(timeout: Duration) -> Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(timeout / .seconds(1))
        // The store has kept them where it wanted to.
        configuration.foreignKeysEnabled = false
        // As SQLite's default has it: a schema may use them, and is read and written again in its own words.
        configuration.acceptsDoubleQuotedStringLiterals = true
        return configuration
    }

    static func begin(_ db: Database) throws {
        try db.execute(
            sql: """
                PRAGMA journal_mode = WAL; -- Readers go on with what they see while it is written.
                PRAGMA synchronous = NORMAL;
                PRAGMA journal_size_limit = 67108864;
                PRAGMA ignore_check_constraints = ON; -- What the store holds is right.
                """)
    }
}
