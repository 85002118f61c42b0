internal import Glibc

/// Tells other processes that this one serves a store, and with which state.
///
/// Daemons with different states do not know of each other's consumers: one may clean history that the
/// other has not delivered. Processes that share a state do know.
///
/// The lease is a shared lock of the open file description (fcntl(2)) on one byte of the store, far
/// behind everything that SQLite reads, writes or locks. The byte's offset encodes the state and the
/// process. So it needs no file and no right to write, and it ends with the process in every case.
struct StoreLease: Sendable, Equatable {
    /// All leases lie from here on.
    static let start: Int64 = 1 << 62
    static let processBits: Int64 = 22  // The kernel's limit, PID_MAX_LIMIT.
    private static let stateBits: Int64 = 39

    let state: Int64
    let process: pid_t

    /// - Parameter stateFolder: Where this process keeps its state. A folder that does not exist belongs
    ///   to no other process.
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

    /// - Returns: Nil if the byte is not a lease.
    init?(offset: Int64) {
        guard offset >= Self.start else { return nil }
        let number = offset - Self.start
        state = number >> Self.processBits
        process = pid_t(number & (1 << Self.processBits - 1))
    }

    /// The byte that is locked.
    var offset: Int64 { Self.start | state << Self.processBits | Int64(process) & (1 << Self.processBits - 1) }

    /// The bytes of leases with other states.
    var others: [Range<Int64>] {
        let own = Self.start | state << Self.processBits
        let next = own + 1 << Self.processBits
        let end = Self.start + 1 << (Self.stateBits + Self.processBits)
        return [Self.start..<own, next..<end].filter { !$0.isEmpty }
    }
}

extension WriterProbe {
    /// Takes a lease on the store. Fails if a process with another state folder has one.
    ///
    /// On a file system without locks, every process gets a lease: SQLite itself does not work there.
    ///
    /// - Throws: `HistoryError` with `.storeServedElsewhere`; this process then has no lease.
    func take(_ lease: StoreLease, path: String) throws(HistoryError) {
        let other = withStore { descriptor -> LeaseHolder? in
            guard FileLock.set(descriptor, F_RDLCK, lease.offset..<lease.offset + 1) else { return nil }
            // Takes the lease before looking for others: of two processes that start together, at least
            // one sees the other.
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

    /// More leases than this are not from daemons: the first ones are believed.
    private static let mostLeases = 64

    /// The holder of a lease with another state. A lock of a process that may only read the store, and
    /// does not serve it, does not count.
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
    /// Runs a body while no process serves the store with another state folder. A store that cannot be
    /// opened gets no lease: the body then reports the reason.
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

/// The files that this process serves. Two paths to one file would share a state and move each other's
/// cursors, so the second one waits.
final class ServedFiles: Sendable {
    static let shared = ServedFiles()

    private let paths = Locked<[FileID: String]>([:])

    /// Whether a file is served, by whatever path.
    func isServed(_ file: FileID) -> Bool { paths.withLock { $0[file] != nil } }

    /// Runs a body while no other path serves the file that this one leads to.
    ///
    /// It opens nothing: closing a descriptor would drop the locks of the other path's connections.
    ///
    /// - Throws: `HistoryError` if another path serves the file, or if the path may not be followed; what
    ///   the body throws.
    func serving<T>(_ path: String, _ body: () async throws -> T) async throws -> T {
        guard let file = FileID(of: try StorePath.resolve(path)) else { return try await body() }
        let other = paths.withLock { paths in
            let other = paths[file]
            if other == nil { paths[file] = path }
            return other
        }
        // A session of the same path that has not ended yet is not another store.
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
