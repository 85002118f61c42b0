/// Errors that several parts find: one text for each.
extension HistoryError {
    /// - Parameter oldest: The oldest token of the store that still works.
    static func expired(_ number: Int64, oldest: HistoryToken) -> HistoryError {
        HistoryError(
            .tokenExpired,
            "The history after \(HistoryToken(store: oldest.store, number: number)) has been deleted; the oldest token that still works is \(oldest).",
            hint: "Start over from a copy of the data and that token.")
    }

    static func foreign(_ token: HistoryToken, to store: StoreID) -> HistoryError {
        HistoryError(
            .tokenForeign,
            "The token \(token) belongs to another store; tokens of this store begin with \"\(store):\".",
            hint: "Check which store the token was read from, and whether the store was replaced.")
    }

    /// What changes a store is refused where another program records.
    static func onlyRead(_ path: String) -> HistoryError {
        HistoryError(
            .onlyRead, "The store \"\(path)\" is only read: Core Data or SwiftData records its history.",
            hint: "`historyctl history` reads it; the daemon does with \"source\": \"coreData\".")
    }

    static func ahead(_ token: HistoryToken, newest: HistoryToken) -> HistoryError {
        HistoryError(
            .tokenAhead, "The token \(token) is newer than the store's newest transaction, \(newest).",
            hint: "The store was replaced or restored from a backup: start over from a copy of the data.")
    }

    static func unknownContext(_ name: String, _ kind: String, of consumer: String) -> HistoryError {
        HistoryError(
            .unknownContext, "Consumer \"\(consumer)\" has no \(kind) \"\(name)\".",
            hint: "The contexts of a consumer are those in the configuration.")
    }
}
