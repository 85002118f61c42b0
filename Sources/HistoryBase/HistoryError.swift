/// Why the history could not be recorded, read, merged or cleaned.
///
/// `code` is for programs, `message` says what failed, `hint` says what to do about it.
public struct HistoryError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is. New codes may be added.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        let name: String

        /// A code that another module defines.
        public init(_ name: String) { self.name = name }

        /// As text.
        public var description: String { name }

        /// The file does not exist.
        public static let storeMissing = Code("storeMissing")
        /// The file is not an SQLite database, or is damaged.
        public static let storeCorrupt = Code("storeCorrupt")
        /// A newer SQLite has written what this program's SQLite cannot read.
        public static let storeTooNew = Code("storeTooNew")
        /// The file may not be read, or may not be written although that is necessary.
        public static let storeUnreadable = Code("storeUnreadable")
        /// Opening the store would create files beside it that its owner, or another user with write permission for
        /// the store, could not write.
        public static let wouldLockOut = Code("wouldLockOut")
        /// Another process serves the store with another state folder.
        public static let storeServedElsewhere = Code("storeServedElsewhere")
        /// Another process truncated the store's `-shm` while it was in use.
        public static let storeInterrupted = Code("storeInterrupted")
        /// Another process held a lock for longer than the timeout.
        public static let storeBusy = Code("storeBusy")
        /// The store's file system is full.
        public static let storeFull = Code("storeFull")
        /// The store has no history: it was never tracked, or was untracked.
        public static let notTracked = Code("notTracked")
        /// A newer version of this program tracks the store.
        public static let formatTooNew = Code("formatTooNew")
        /// A name that cannot be tracked: a view, a virtual table, a table of SQLite or of historyd, or no table.
        public static let notAnEntity = Code("notAnEntity")
        /// The store is a mirror of a store on another machine: only the mirroring program writes to it.
        public static let isMirror = Code("isMirror")
        /// Another program records the store's history, and the store is read-only here.
        public static let onlyRead = Code("onlyRead")
        /// The store is a copy of a store that still exists; the cursors belong to the original.
        public static let storeCopied = Code("storeCopied")
        /// The text is not a token.
        public static let tokenInvalid = Code("tokenInvalid")
        /// The history after the token has been deleted, completely or in part.
        public static let tokenExpired = Code("tokenExpired")
        /// The token belongs to another store.
        public static let tokenForeign = Code("tokenForeign")
        /// The token is newer than the store's newest transaction: the file was replaced or restored.
        public static let tokenAhead = Code("tokenAhead")
        /// The feed has not sent the acknowledged token to a program of this user.
        public static let tokenNotSent = Code("tokenNotSent")
        /// A context in the program itself failed.
        public static let contextFailed = Code("contextFailed")
        /// A replica could not be written.
        public static let replicaUnwritable = Code("replicaUnwritable")
        /// A replica's file is damaged.
        public static let replicaDamaged = Code("replicaDamaged")
        /// The state could not be used, for a reason other than those below.
        public static let stateUnusable = Code("stateUnusable")
        /// The state's file system is full.
        public static let stateFull = Code("stateFull")
        /// The state's file system is read-only.
        public static let stateReadOnly = Code("stateReadOnly")
        /// A database of the state is damaged.
        public static let stateDamaged = Code("stateDamaged")
        /// This user may not write in the state folder.
        public static let stateNotPermitted = Code("stateNotPermitted")
        /// Another tracker or daemon serves a consumer with the same state.
        public static let consumerInUse = Code("consumerInUse")
        /// Another daemon uses the state folder.
        public static let stateInUse = Code("stateInUse")
        /// The control socket could not be bound.
        public static let controlSocket = Code("controlSocket")
        /// A configured store is not open now.
        public static let storeNotOpen = Code("storeNotOpen")
        /// The consumer has no such context.
        public static let unknownContext = Code("unknownContext")
        /// Another program is connected to the feed.
        public static let feedInUse = Code("feedInUse")
        /// The name of an author or a context cannot be recorded.
        public static let authorInvalid = Code("authorInvalid")
        /// A statement of the caller failed.
        public static let statementFailed = Code("statementFailed")
        /// The process or the system has no descriptor left.
        public static let tooManyFiles = Code("tooManyFiles")
        /// The kernel returned no random bits for a store's id.
        public static let noRandomness = Code("noRandomness")
        /// Any other failure that SQLite reported.
        public static let sqlite = Code("sqlite")
    }

    /// What kind of failure it is, for programs.
    public let code: Code
    /// What failed, and why, as human-readable text.
    public let message: String
    /// What to do about it.
    public let hint: String?
    /// The underlying error, of SQLite or the system.
    public let cause: (any Error)?

    /// An error with its code and message.
    public init(_ code: Code, _ message: String, hint: String? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.hint = hint
        self.cause = cause
    }

    /// As text.
    public var description: String {
        guard let hint else { return message }
        return "\(message) \(hint)"
    }
}

/// Errors that several parts report: one text for each.
extension HistoryError {
    /// - Parameter oldest: The oldest token of the store that is still valid.
    package static func expired(_ number: Int64, oldest: HistoryToken) -> HistoryError {
        HistoryError(
            .tokenExpired,
            "The history after \(HistoryToken(store: oldest.store, number: number)) has been deleted; the oldest token that still works is \(oldest).",
            hint: "Start over from a copy of the data and that token.")
    }

    package static func foreign(_ token: HistoryToken, to store: StoreID) -> HistoryError {
        HistoryError(
            .tokenForeign,
            "The token \(token) belongs to another store; tokens of this store begin with \"\(store):\".",
            hint: "Check which store the token was read from, and whether the store was replaced.")
    }

    /// The error for a change to a store that another program records.
    package static func onlyRead(_ path: String) -> HistoryError {
        HistoryError(
            .onlyRead, "The store \"\(path)\" is only read: Core Data or SwiftData records its history.",
            hint: "`historyctl history` reads it; the daemon does with \"source\": \"coreData\".")
    }

    package static func ahead(_ token: HistoryToken, newest: HistoryToken) -> HistoryError {
        HistoryError(
            .tokenAhead, "The token \(token) is newer than the store's newest transaction, \(newest).",
            hint:
                "Unless the token is wrong, the store was replaced or restored from a backup: start over from a copy of the data."
        )
    }

    package static func unknownContext(_ name: String, _ kind: String, of consumer: String) -> HistoryError {
        HistoryError(
            .unknownContext, "Consumer \"\(consumer)\" has no \(kind) \"\(name)\".",
            hint: "The contexts of a consumer are those in the configuration.")
    }
}
