internal import Glibc

/// Says to other processes that this one serves a store, and with which state.
///
/// Two daemons with different states do not know of each other's consumers: what one cleans, the other may not
/// have had. Processes that share a state know.
///
/// It is a shared lock of the open file description (fcntl(2)) on one byte of the store, far behind everything
/// that SQLite reads, writes or locks. The byte's offset tells the state and the process. So it needs no file, no
/// right to write, and ends with the process, however that ends.
struct StoreLease: Sendable, Equatable {
    /// Every lease lies from here on.
    static let start: Int64 = 1 << 62
    static let processBits: Int64 = 22  // The kernel's limit, PID_MAX_LIMIT.
    private static let stateBits: Int64 = 39

    let state: Int64
    let process: pid_t

    /// - Parameter stateFolder: Where this process keeps its state. A folder that does not exist belongs to no other process.
    init(stateFolder: String, process: pid_t = getpid()) {
        var status = stat()
        if stat(stateFolder, &status) != 0 { status = stat() }
        self.init(state: FileID(status), process: process)
    }

    init(state: FileID, process: pid_t) {
        var bytes: [UInt8] = []
        for part in [state.device, state.inode] { withUnsafeBytes(of: part) { bytes += $0 } }
        let hash = FileLock.hash(bytes)
        self.state = Int64(hash >> UInt64(64 - Self.stateBits))
        self.process = process
    }

    /// - Returns: Nil if the byte is no lease's.
    init?(offset: Int64) {
        guard offset >= Self.start else { return nil }
        let number = offset - Self.start
        state = number >> Self.processBits
        process = pid_t(number & (1 << Self.processBits - 1))
    }

    /// The byte that is locked.
    var offset: Int64 { Self.start | state << Self.processBits | Int64(process) & (1 << Self.processBits - 1) }

    /// Where the leases with other states lie.
    var others: [Range<Int64>] {
        let own = Self.start | state << Self.processBits
        let next = own + 1 << Self.processBits
        let end = Self.start + 1 << (Self.stateBits + Self.processBits)
        return [Self.start..<own, next..<end].filter { !$0.isEmpty }
    }
}

extension WriterProbe {
    /// Takes a lease on the store, or returns the process that has one with another state folder.
    ///
    /// A file system without locks gives a lease to every process: SQLite itself does not work there.
    ///
    /// - Throws: `HistoryError` with `.storeServedElsewhere`; this process then has no lease.
    func take(_ lease: StoreLease, path: String) throws(HistoryError) {
        let other = withStore { descriptor -> LeaseHolder? in
            guard FileLock.set(descriptor, F_RDLCK, lease.offset..<lease.offset + 1) else { return nil }
            // First taken, then looked for others: of two that come at once, at least one sees the other.
            guard let other = Self.holder(of: descriptor, besides: lease) else { return nil }
            _ = FileLock.set(descriptor, F_UNLCK, lease.offset..<lease.offset + 1)
            return other
        }
        guard let other else { return }
        throw HistoryError(
            .storeServedElsewhere,
            "The store \"\(path)\" is already served by \(other), with another state folder.",
            hint: "Stop that daemon or tracker, or let both use the same state folder.")
    }

    /// More leases than that are no daemons': the first ones are believed.
    private static let mostLeases = 64

    /// Who has a lease with another state. A lock by who may only read the store, and does not serve it, is none.
    private static func holder(of descriptor: Int32, besides lease: StoreLease) -> LeaseHolder? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        var seen = 0
        for range in lease.others {
            var rest = range
            while !rest.isEmpty, let offset = FileLock.other(descriptor, in: rest),
                let other = StoreLease(offset: max(offset, rest.lowerBound))
            {
                seen += 1
                let holder = LeaseHolder(process: other.process, file: FileID(status))
                if holder.isPlausible || seen > mostLeases { return holder }
                rest = max(offset, rest.lowerBound) + 1..<rest.upperBound
            }
        }
        return nil
    }

    func end(_ lease: StoreLease) {
        withStore { descriptor in
            _ = FileLock.set(descriptor, F_UNLCK, lease.offset..<lease.offset + 1)
        }
    }
}

extension WriterProbe {
    /// Does something while no process serves the store with another state folder. A store that cannot be opened is not
    /// leased: the body finds out why.
    ///
    /// - Parameter isUsedInProcess: Whether this process may have connections to the store beside the body's.
    /// - Throws: `HistoryError` with `.storeServedElsewhere`, and what the body throws.
    static func withLease<T>(
        on path: String, stateFolder: String, isUsedInProcess: Bool, _ body: () async throws -> T
    ) async throws -> T {
        let probe: WriterProbe
        do throws(ObserverError) {
            probe = try WriterProbes.shared.take(path)
        } catch {
            return try await body()
        }
        defer { WriterProbes.shared.end(probe, isUsedInProcess: isUsedInProcess) }
        let lease = StoreLease(stateFolder: stateFolder)
        try probe.take(lease, path: path)
        defer { probe.end(lease) }
        return try await body()
    }
}

// MARK: - In one process

/// The files that this process serves. Two stores whose paths lead to one file would share a state, and move each
/// other's cursors: the second one waits.
final class ServedFiles: Sendable {
    static let shared = ServedFiles()

    private let paths = Locked<[FileID: String]>([:])

    /// Whether a file is served, by whatever path.
    func isServed(_ file: FileID) -> Bool { paths.withLock { $0[file] != nil } }

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
