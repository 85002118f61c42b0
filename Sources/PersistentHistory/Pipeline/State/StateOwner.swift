internal import Glibc

/// Determines which store owns the state of a store id.
///
/// The id is in the store, so a moved store keeps its state, and a copy has the same id. Two files with
/// one state would move each other's cursors. So while both exist, the state stays with its first owner.
/// The owner's path is beside the state, in `<store id>.store`.
enum StateOwner {
    /// One lock for each state, because its disk may hang: copies of one store must wait for each other,
    /// but not for other stores.
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
    /// - Throws: `HistoryError` with `.storeCopied` if another store has it, with `.storeBusy` if that
    ///   cannot be determined now, and with problems of the state.
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
            throw HistoryError.stateFile(note, "The file \"\(note)\" cannot be used", error)
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

/// Shows processes that share a state which of them serves which consumer of a store. Two trackers of one
/// author, or a tracker and a daemon, would move each other's cursor.
///
/// It is a lock on one byte of the file `<store id>.lock` beside the state. The byte's offset encodes the
/// author and the process. It ends with the process in every case.
final class ConsumerLease: Sendable {
    private let descriptor: Locked<Int32>

    /// - Throws: `HistoryError` with `.consumerInUse`, naming the process that has it.
    init(_ consumers: [String], of store: StoreID, in folder: String) throws(HistoryError) {
        let descriptor = open("\(folder)/\(store).lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        self.descriptor = Locked(descriptor)
        // An unwritable state is reported when it is opened.
        guard descriptor >= 0 else { return }
        for consumer in consumers {
            guard let other = Self.take(consumer, descriptor) else { continue }
            let process = other == getpid() ? "this process" : "process \(other)"
            throw HistoryError(
                .consumerInUse,
                "The consumer \"\(consumer)\" is already served by \(process), with the same state folder.",
                hint: "Stop that tracker or daemon, or give each program its own author.")
        }
    }

    /// - Returns: The process that has the consumer; nil if it was taken successfully.
    private static func take(_ consumer: String, _ descriptor: Int32) -> pid_t? {
        let slots = Int64(1) << StoreLease.processBits
        // The remaining bits are less than the largest file offset.
        let start = Int64(FileLock.hash(consumer.utf8) >> 25) * slots
        let own = start + Int64(getpid()) & (slots - 1)
        guard FileLock.set(descriptor, F_WRLCK, own..<own + 1) else {
            return errno == EAGAIN || errno == EACCES ? getpid() : nil
        }
        // Takes the lock before looking for others: of two processes that start together, at least one
        // sees the other.
        return FileLock.other(descriptor, in: start..<start + slots).map { pid_t($0 - start) }
    }

    /// Releases the consumers.
    func end() {
        descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return }
            // A child process that is being started has the descriptor, too, and with it the locks.
            _ = FileLock.set(descriptor, F_UNLCK, 0..<Int64.max)
            close(descriptor)
            descriptor = -1
        }
    }

    deinit { end() }
}
