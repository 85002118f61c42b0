/// The state of a publisher or a follower, as `historyd-nats status` shows it.
package struct WorkerReport: Codable, Sendable {
    package enum Role: String, Codable, Sendable { case publish, follow }

    package let role: Role
    /// The stream's name.
    package let name: String
    /// The store's or the mirror's file.
    package let path: String
    package var isConnected = false
    /// The id of the store.
    package var store: String?
    package var epoch: Int64 = 0
    /// The number of the last change that is in the stream, or in the mirror.
    package var position: Int64 = 0
    package var lag = WorkerLag()
    package var groups = 0
    package var bytes = 0
    /// The number of sessions that began, and that failed.
    package var connections = 0
    package var failures = 0
    /// How often an operator's decision was needed, or a group could not be applied.
    package var refusals = 0
    /// The number of foreign messages in the stream.
    package var foreign = 0
    /// Why the last session failed, or what the current one waits for; nil if that works.
    package var problem: String?
    /// Whether only an operator can solve the problem.
    package var needsOperator = false
    /// When the problem began, in seconds since 1970.
    package var failingSince: Double?
    /// A problem that does not stop the session from publishing or following; nil if there is none.
    package var warning: String?
    /// When stream and store, or stream and mirror, were last compared, in seconds since 1970.
    package var compared: Double?
    /// The time, by the source's clock, as of which the mirror shows the source, in seconds since 1970; nil if
    /// its publisher does not send it.
    package var asOf: Double?
    /// When the last message of the publisher arrived, in seconds since 1970, and within how many seconds the
    /// publisher promises the next one.
    package var heard: Double?
    package var beat: Double?
    /// When the position last changed, in seconds since 1970.
    package var changed: Double?

    package init(_ role: Role, name: String, path: String) {
        (self.role, self.name, self.path) = (role, name, path)
    }
}

/// What a stream or a mirror does not have yet.
package struct WorkerLag: Codable, Sendable, Hashable {
    /// How many transactions; nil if unknown.
    package var transactions: Int?
    /// Whether there are more.
    package var isAtLeast: Bool?
    /// For how long something has been missing, or may have been; 0 if nothing is.
    package var seconds: Double = 0

    package init(transactions: Int? = nil, isAtLeast: Bool? = nil, seconds: Double = 0) {
        (self.transactions, self.isAtLeast, self.seconds) = (transactions, isAtLeast, seconds)
    }
}
