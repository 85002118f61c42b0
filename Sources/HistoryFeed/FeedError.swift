import HistoryControl

/// Why a feed has ended, or an acknowledgement was refused: a failure that waiting cannot solve.
///
/// A restart of the daemon, or a replaced store, is not an error: the feed waits and reconnects.
public struct FeedError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The daemon's error code. A newer daemon may send codes that are not listed here.
    public struct Code: RawRepresentable, Sendable, Hashable {
        /// The code as it is in the protocol.
        public let rawValue: String

        /// A code as it is in the protocol.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// No store of the daemon has this name.
        public static let unknownStore = Code(rawValue: "unknownStore")
        /// The store has no such consumer.
        public static let unknownConsumer = Code(rawValue: "unknownConsumer")
        /// The consumer has no feed of this name.
        public static let unknownContext = Code(rawValue: "unknownContext")
        /// Several stores have such a consumer: name one.
        public static let ambiguous = Code(rawValue: "ambiguous")
        /// This user may not use the daemon's socket.
        public static let notPermitted = Code(rawValue: "notPermitted")
        /// The acknowledged text is not a token.
        public static let tokenInvalid = Code(rawValue: "tokenInvalid")
    }

    /// What went wrong, for programs.
    public let code: Code
    /// A human-readable message: what failed, which object, why, and what to do.
    public let message: String

    /// An error with a code and a message.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    init(_ error: ControlError) { self.init(Code(rawValue: error.code.rawValue), error.description) }

    /// The message.
    public var description: String { message }
}
