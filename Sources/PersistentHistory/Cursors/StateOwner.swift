internal import FoundationEssentials

/// Whose the state of a store id is.
///
/// The id lies in the store, so that a store that is moved keeps its state, and that a copy has the
/// same id. Two files with one state would move each other's cursors: where both are configured, the
/// state stays with the one that had it. Its path lies beside the state, in `<store id>.store`.
enum StateOwner {
    private static let turn = Locked<Void>(())

    /// Takes a state for a store.
    ///
    /// - Parameters:
    ///   - folder: The state folder.
    ///   - others: The paths of all stores that are configured.
    /// - Throws: `HistoryError` with `.storeCopied` where another store has it; what hinders looking.
    static func take(_ store: StoreID, in folder: String, for path: String, others: Set<String>) throws {
        try turn.withLock { _ in
            let note = "\(folder)/\(store).store"
            let owner = FileManager.default.contents(atPath: note).map { String(decoding: $0, as: UTF8.self) }
            guard owner != path else { return }
            if let owner, others.contains(owner), FileID(of: owner) != FileID(of: path),
                try id(of: owner) == store
            {
                throw HistoryError(
                    .storeCopied,
                    "The store \"\(path)\" is a copy of \"\(owner)\", which is configured, too: both have the id \(store).",
                    hint:
                        "Serve one of them; `historyctl untrack` and `track` make a store of its own of a copy."
                )
            }
            do {
                try Data(path.utf8).write(to: URL(filePath: note), options: .atomic)
            } catch {
                throw HistoryError(
                    .stateUnusable, "The file \"\(note)\" can not be written: \(error).",
                    hint: "Check the state folder's permissions and space.", cause: error)
            }
        }
    }

    /// Nil where there is no tracked store.
    private static func id(of path: String) throws -> StoreID? {
        do {
            let reader = try HistoryReader(path: path, patience: 0)
            defer { try? reader.close() }  // Nothing was written.
            return reader.storeID
        } catch let error as HistoryError where error.code == .storeMissing || error.code == .notTracked {
            return nil
        }
    }
}
