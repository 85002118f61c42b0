import Glibc

/// The least that can hear of commits and find them: one thread, inotify(7), the question whether a
/// writer is at work, and a SELECT. No rules, no state, no hooks.
struct BareLoop {
    private let reader: BareReader
    private let inotify: Int32
    private let store: Int32
    private let shm: Int32

    init(_ path: String) throws {
        reader = try BareReader(path)
        try reader.open()
        inotify = inotify_init1(Int32(IN_CLOEXEC))
        for file in [path, path + "-wal", path + "-journal"] where access(file, F_OK) == 0 {
            guard inotify_add_watch(inotify, file, UInt32(IN_MODIFY)) >= 0 else {
                throw BenchError.system("watch a store")
            }
        }
        store = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        shm = Glibc.open(path + "-shm", O_RDONLY | O_CLOEXEC)
    }

    /// Calls `found` with the new transactions whenever there are some, until the process is ended.
    func run(_ found: ([BareReader.Transaction]) throws -> Void) throws {
        var events = [UInt8](repeating: 0, count: 4096)
        while read(inotify, &events, events.count) > 0 {
            while true {
                // First the question, then the look: the other way round, a commit may slip through.
                let isWriterActive =
                    isLocked(shm, from: 120, count: 1) || isLocked(store, from: 0x4000_0000, count: 512)
                let transactions = try reader.next()
                if !transactions.isEmpty { try found(transactions) }
                if !isWriterActive { break }
                Clock.pause(microseconds: 30)
            }
        }
        throw BenchError.system("read from inotify")
    }

    private func isLocked(_ descriptor: Int32, from start: Int, count: Int) -> Bool {
        guard descriptor >= 0 else { return false }
        var lock = flock()
        lock.l_type = Int16(F_RDLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = start
        lock.l_len = count
        // F_OFD_GETLK, which Glibc's module does not show.
        return fcntl(descriptor, 36, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
    }
}

/// Reads the history by one SELECT, and parts it into transactions.
final class BareReader {
    struct Transaction {
        let number: Int64
        let object: Int64
    }

    private let connection: Connection
    private let statement: Statement
    private var last: Int64 = 0

    init(_ path: String) throws {
        connection = try Connection(path, readOnly: true)
        statement = try Statement(
            connection,
            "SELECT id, origin, kind, object, detail FROM historyd_change WHERE id > ?1 ORDER BY id LIMIT 5000")
    }

    /// Begins at the end.
    func open() throws { last = try connection.number("SELECT max(id) FROM historyd_change") }

    /// What is new, at most 5000; nothing where the store is locked.
    func next() throws -> [Transaction] {
        statement.bind(last)
        defer { statement.reset() }
        var transactions: [Transaction] = []
        var origin: [UInt8] = []
        while try statement.step() == .row {
            last = statement.integer(0)
            let bytes = statement.bytes(1)
            if transactions.isEmpty || !origin.elementsEqual(bytes) {
                origin = Array(bytes)
                transactions.append(Transaction(number: last, object: statement.integer(3)))
            }
        }
        return transactions
    }
}
