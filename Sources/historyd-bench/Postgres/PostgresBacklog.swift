import Glibc

/// How fast pg_recvlogical works off what was committed before it came.
struct PostgresBacklog {
    private let workplace: Workplace
    private let transactions: Int
    private let rounds: Int

    init(_ workplace: Workplace, _ sizes: Sizes) {
        self.workplace = workplace
        transactions = max(sizes.backlog / 5, 1)
        rounds = min(sizes.rounds, 3)
    }

    /// - Parameter baseline: what is compared to.
    func run(_ group: String, against baseline: Figure.Baseline) throws -> Findings {
        do {
            let server = try PostgresServer(workplace)
            defer { server.end() }
            var findings = Findings()
            for decoder in LogicalDecoder.allCases {
                let connection = try server.makeDatabase(decoder.rawValue)
                guard server.has(plugin: decoder.rawValue, in: connection) else {
                    findings.omissions.append(decoder.missing)
                    continue
                }
                let rates = try measure(decoder, server, connection)
                findings.figures.append(
                    Figure(
                        group, "PostgreSQL, \(decoder.title), of \(NumberText.text(Double(transactions)))",
                        rounds: rates, .perSecond, against: baseline))
            }
            return findings
        } catch let missing as Tool.Missing {
            return Findings(omissions: ["PostgreSQL: \(missing.reason)"])
        }
    }

    /// Changes in a second, in each round. A slot remembers what was received: each round has its own.
    private func measure(
        _ decoder: LogicalDecoder, _ server: PostgresServer, _ connection: PostgresConnection
    ) throws -> [Double] {
        let slots = (0..<rounds).map { "\(decoder.slot)_\($0)" }
        for slot in slots { try decoder.makeSlot(connection, slot) }
        try connection.execute("SET synchronous_commit = off")
        try connection.execute(
            """
            DO $$ BEGIN FOR n IN 1..\(transactions) LOOP
                INSERT INTO item VALUES (n, 'name of ' || n, 'a text of some length, as texts are', n); COMMIT;
            END LOOP; END $$
            """)
        try connection.execute("CHECKPOINT")
        guard let end = try connection.execute("SELECT pg_current_wal_lsn()") else {
            throw BenchError("PostgreSQL does not tell where its log ends.")
        }
        return try slots.map { slot in
            let start = Clock.now
            let (child, output) = try server.receive(decoder.rawValue, slot: slot, until: end)
            let rows = try rows(in: output, decoder)
            let seconds = Double(Clock.now - start) / 1e9
            _ = child.waitForEnd()
            guard rows == transactions else { throw BenchError("\(rows) rows came, of \(transactions).") }
            return Double(rows) / seconds
        }
    }

    /// Lines that tell of a row, which are known by their first byte, until the output ends.
    private func rows(in output: Int32, _ decoder: LogicalDecoder) throws -> Int {
        defer { close(output) }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var rows = 0
        var isLineStart = true
        while true {
            let count = read(output, &buffer, buffer.count)
            guard count > 0 else { return rows }
            for byte in buffer[..<count] {
                if isLineStart, byte == decoder.firstByte { rows += 1 }
                isLineStart = byte == UInt8(ascii: "\n")
            }
        }
    }
}
