/// The files that this process serves. Two stores whose paths lead to one file would share a state, and move each
/// other's cursors: the second one waits.
final class ServedFiles: Sendable {
    static let shared = ServedFiles()

    private let paths = Locked<[FileID: String]>([:])

    /// Runs a body while no other path serves the file that this one leads to.
    ///
    /// Nothing is opened: to close a descriptor would drop the locks of the other's connections.
    ///
    /// - Throws: `HistoryError` where another path does, or where the path may not be followed; what the body throws.
    func serving<T>(_ path: String, _ body: () async throws -> T) async throws -> T {
        guard let file = FileID(of: try StorePath.resolve(path)) else { return try await body() }
        let other = paths.withLock { paths in
            let other = paths[file]
            if other == nil { paths[file] = path }
            return other
        }
        // A session that has not come to its end yet is no other store.
        if other == path { return try await body() }
        if let other {
            throw HistoryError(
                .storeServedElsewhere,
                "The store \"\(path)\" is the same file as the store \"\(other)\", which is served already.",
                hint: "Remove the link, or one of the two from the configuration.")
        }
        defer { paths.withLock { $0[file] = nil } }
        return try await body()
    }
}
