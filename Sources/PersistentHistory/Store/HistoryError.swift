/// Why the history could not be recorded, read, merged or cleaned.
///
/// `code` is for programs, `message` says what and which, `hint` what to do about it.
public struct HistoryError: Error, Sendable, CustomStringConvertible {
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        let name: String
        public var description: String { name }

        /// The file is not there.
        public static let storeMissing = Code(name: "storeMissing")
        /// The file is no SQLite database, or is damaged.
        public static let storeCorrupt = Code(name: "storeCorrupt")
        /// The file may not be read, or not be written where that is needed.
        public static let storeUnreadable = Code(name: "storeUnreadable")
        /// Another process held a lock for longer than was waited.
        public static let storeBusy = Code(name: "storeBusy")
        /// The store has no history: tracking was never begun, or was taken away.
        public static let notTracked = Code(name: "notTracked")
        /// A newer version of this program tracks the store.
        public static let formatTooNew = Code(name: "formatTooNew")
        /// A name that can not be tracked: a view, a virtual table, SQLite's own, one of ours, or nothing at all.
        public static let notAnEntity = Code(name: "notAnEntity")
        /// The text is no token.
        public static let tokenInvalid = Code(name: "tokenInvalid")
        /// The history after the token has been deleted, wholly or in part.
        public static let tokenExpired = Code(name: "tokenExpired")
        /// The token is another store's.
        public static let tokenForeign = Code(name: "tokenForeign")
        /// The token is newer than the store's newest transaction: the file was replaced or restored.
        public static let tokenAhead = Code(name: "tokenAhead")
        /// A replica could not be written.
        public static let replicaUnwritable = Code(name: "replicaUnwritable")
        /// The state database could not be used.
        public static let stateUnusable = Code(name: "stateUnusable")
        /// Any other failure that SQLite reported.
        public static let sqlite = Code(name: "sqlite")
    }

    public let code: Code
    public let message: String
    public let hint: String?
    public let cause: (any Error)?

    public init(_ code: Code, _ message: String, hint: String? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.hint = hint
        self.cause = cause
    }

    public var description: String {
        guard let hint else { return message }
        return "\(message) \(hint)"
    }
}
