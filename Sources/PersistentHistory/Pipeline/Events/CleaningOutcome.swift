/// What a cleanup deleted.
public struct CleaningOutcome: Sendable, Equatable, Codable {
    /// Changes that were deleted.
    public var deleted = 0
    /// The oldest token that is still valid.
    public var floor: HistoryToken
    /// Bytes returned to the file system, if the store has `auto_vacuum = INCREMENTAL`.
    public var givenBack: Int64 = 0
    /// Free bytes in the store's file, which SQLite reuses. `VACUUM` returns them to the file system, under a
    /// lock.
    public var free: Int64 = 0
}
