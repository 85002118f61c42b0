/// Where a consumer that is new to a store begins.
public enum StartingPosition: String, Sendable, Hashable, CaseIterable, Codable {
    /// With the oldest existing transaction. If older ones were deleted, its hooks are notified.
    case oldest
    /// With the first transaction that is committed after the consumer started. Its hooks are not called
    /// for earlier ones. Its contexts are filled from the store.
    case newest
}
