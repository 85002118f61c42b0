import Glibc

/// PostgreSQL's ways to be notified of commits, each with a database of its own.
enum PostgresContestants {
    /// - Returns: those that there are, and what is missing for others.
    static func all(_ server: PostgresServer) throws -> (contestants: [any Contestant], omissions: [String]) {
        var contestants: [any Contestant] = [try NotifyContestant(server)]
        var omissions: [String] = []
        for decoder in LogicalDecoder.allCases {
            let database = try server.makeDatabase(decoder.rawValue)
            guard server.has(plugin: decoder.rawValue, in: database) else {
                omissions.append(decoder.missing)
                continue
            }
            try decoder.makeSlot(database, decoder.slot)
            let (child, output) = try server.receive(decoder.rawValue, slot: decoder.slot)
            contestants.append(
                LineContestant(
                    "PostgreSQL, \(decoder.title)", decoder == .json ? .rival : .other, child,
                    LineReader(output), key: decoder.key,
                    commit: writer(database)))
        }
        return (contestants, omissions)
    }

    /// Makes single-row transactions, each with the next key.
    static func writer(_ connection: PostgresConnection) -> () throws -> (key: Int64, time: Int64) {
        var key: Int64 = 0
        return {
            key += 1
            try connection.execute("EXECUTE make(\(key))")
            return (key, Clock.now)
        }
    }
}

/// Output plugins of logical decoding.
enum LogicalDecoder: String, CaseIterable {
    case test = "test_decoding"
    case json = "wal2json"

    /// One name in all databases.
    var slot: String { rawValue }
    var title: String { "pg_recvlogical with \(rawValue)" }
    var missing: String {
        "PostgreSQL's \(rawValue): it is not installed (apt-get install postgresql-15-wal2json)."
    }

    func makeSlot(_ connection: PostgresConnection, _ slot: String) throws {
        try connection.execute("SELECT pg_create_logical_replication_slot('\(slot)', '\(rawValue)')")
    }

    /// Of a line that describes a row: "table public.item: INSERT: …", or an object.
    var firstByte: UInt8 { self == .test ? UInt8(ascii: "t") : UInt8(ascii: "{") }

    /// The row's key in a line of its output; nil if there is none.
    func key(_ line: Substring) -> Int64? {
        let label = self == .test ? "id[bigint]:" : "\"columnvalues\":["
        guard let range = line.firstRange(of: label) else { return nil }
        return Int64(line[range.upperBound...].prefix { $0.isNumber })
    }
}

/// LISTEN, to what a trigger notifies.
final class NotifyContestant: Contestant {
    let name = "PostgreSQL, LISTEN and NOTIFY"
    let role = ContestantRole.other
    private let commit: () throws -> (key: Int64, time: Int64)
    private let listener: PostgresConnection

    init(_ server: PostgresServer) throws {
        let connection = try server.makeDatabase("notify")
        try connection.execute(
            """
            CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_notify('item', NEW.id::text); RETURN NULL; END $$
            """)
        try connection.execute("CREATE TRIGGER tell AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION tell()")
        commit = PostgresContestants.writer(connection)
        listener = try server.connect("notify")
        try listener.execute("LISTEN item")
    }

    func latency() throws -> Double? {
        let committed = try commit()
        while let key = try listener.notification(within: Self.timeout) {
            if key >= committed.key { return Double(Clock.now - committed.time) / 1000 }
        }
        return nil
    }

    func end() {}
}
