/// Whose the state of a store id is.
///
/// The id lies in the store, so that a store that is moved keeps its state, and that a copy has the
/// same id. Two files with one state would move each other's cursors: as long as both are there, the
/// state stays with the one that had it. Its path lies beside the state, in `<store id>.store`.
enum StateOwner {
    /// For each state, since its disk may hang: copies of one store have to wait for each other, and no other stores.
    private static let turns = Locked<[StoreID: Locked<Void>]>([:])

    private static func turn(for store: StoreID) -> Locked<Void> {
        turns.withLock { turns in
            let turn = turns[store] ?? Locked(())
            turns[store] = turn
            return turn
        }
    }

    /// Takes a state for a store.
    ///
    /// - Parameter folder: The state folder.
    /// - Throws: `HistoryError` with `.storeCopied` if another store has it, `.storeBusy` if that
    ///   cannot be seen now, and with what is wrong with the state.
    static func take(_ store: StoreID, in folder: String, for path: String) throws {
        try turn(for: store).withLock { _ in
            let note = "\(folder)/\(store).store"
            let owner = try attempting(note) { () throws(SystemError) in try AtomicFile.read(note) }
                .map { String(decoding: $0, as: UTF8.self) }
            guard owner != path else { return }
            if let owner, FileID(of: owner) != FileID(of: path), try id(of: owner) == store {
                throw HistoryError(
                    .storeCopied,
                    "The store \"\(path)\" is a copy of \"\(owner)\", which is still there: both have the id \(store).",
                    hint:
                        "Where the store was moved, remove the old file; `historyctl untrack` and `track` make a store of its own of a copy."
                )
            }
            try attempting(note) { () throws(SystemError) in try AtomicFile.write(Array(path.utf8), to: note) }
        }
    }

    private static func attempting<T>(_ note: String, _ body: () throws(SystemError) -> T) throws -> T {
        do {
            return try body()
        } catch {
            let trouble = StateTrouble(errno: error.number)
            throw HistoryError(
                trouble.code, "The file \"\(note)\" cannot be used: \(error).", hint: trouble.hint, cause: error
            )
        }
    }

    /// Nil if there is no tracked store that could be served.
    private static func id(of path: String) throws -> StoreID? {
        do {
            let reader = try StoreHistory.open(path, timeout: .zero)
            defer { try? reader.close() }  // Nothing was written.
            return reader.storeID
        } catch let error as HistoryError where error.code != .storeBusy {
            return nil
        }
    }
}
