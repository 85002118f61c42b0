/// Where a consumer begins that is new to a store.
public enum StartingPosition: String, Sendable, Hashable, CaseIterable, Codable {
    /// With the oldest transaction that there is. If older ones were deleted, its hooks are notified.
    case oldest
    /// With the first transaction that is committed after it was begun. Its hooks are not called for earlier ones; its
    /// contexts are filled from the store.
    case newest
}
