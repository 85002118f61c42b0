import GRDB

extension HistoryReader {
    /// Checks that everything after a token is still there.
    ///
    /// Unlike the number 0 given to `batch`, which means the start of whatever there is, a token
    /// of that number has expired as soon as anything was deleted.
    ///
    /// - Throws: `HistoryError` with `.tokenForeign`, `.tokenExpired` or `.tokenAhead`.
    public func check(after token: HistoryToken) throws {
        let header = try header(for: token)
        guard token.number >= header.floor else { throw Self.expired(token.number, header) }
        try Self.check(token.number, header)
    }

    /// Where to begin reading backwards what is older than a token's transaction.
    ///
    /// - Returns: A number for `reversedBatch(before:)`: that of the transaction's first change.
    /// - Throws: `HistoryError` with `.tokenForeign` or `.tokenAhead`.
    public func start(of token: HistoryToken) throws -> Int64 {
        let header = try header(for: token)
        guard token.number >= header.floor else { return token.number }
        try Self.check(token.number, header)
        let last = try read { db in
            try Int64.fetchOne(
                db,
                sql: """
                    SELECT id FROM historyd_change WHERE id < ?1
                    AND origin IS NOT (SELECT origin FROM historyd_change WHERE id = ?1) ORDER BY id DESC LIMIT 1
                    """, arguments: [token.number])
        }
        return (last ?? 0) + 1
    }

    /// Each shape that an entity has or had, the entities no longer tracked included.
    ///
    /// - Throws: `HistoryError`.
    public func entities() throws -> [Entity] {
        try read { db in try EntityCatalog(db).shapes.values.sorted { $0.shape < $1.shape } }
    }

    private func header(for token: HistoryToken) throws -> HistoryHeader {
        let header = try read { db in try HistoryHeader(db) }
        guard token.store == header.storeID else { throw HistoryError.foreign(token, to: header.storeID) }
        return header
    }

    static func expired(_ number: Int64, _ header: HistoryHeader) -> HistoryError {
        .expired(number, oldest: HistoryToken(store: header.storeID, number: header.floor))
    }

    /// The store's oldest history is at `floor`: from an older position something would be missing.
    static func check(_ number: Int64, _ header: HistoryHeader, isPosition: Bool = false) throws {
        if number > 0 || isPosition, number < header.floor { throw expired(number, header) }
        if number > max(header.newest, header.floor) {
            throw HistoryError.ahead(
                HistoryToken(store: header.storeID, number: number),
                newest: HistoryToken(store: header.storeID, number: header.newest))
        }
    }
}

extension HistoryHeader {
    /// Whether the change that was asked about is another one than that of a fingerprint: a backup was restored.
    /// One that was deleted tells nothing.
    func isReplaced(_ known: String?) -> Bool { known != nil && fingerprint != nil && fingerprint != known }
}
