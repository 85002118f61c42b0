internal import Glibc

/// The stores that an observer watches. It finds out which of them an event concerns.
final class StoreWatches: Sendable {
    private struct State: Sendable {
        var followers: [StoreKey: PathFollower] = [:]
        var lastKey = 0
    }

    private let table: WatchTable
    private let threads: PathFollower.Threads
    private let state = Locked(State())

    init(inotify: Inotify, threads: PathFollower.Threads = .init()) {
        table = WatchTable(inotify: inotify)
        self.threads = threads
    }

    var watchCount: Int { table.count }
    var signals: [StoreSignals] { followers.values.compactMap(\.signals) }

    private var followers: [StoreKey: PathFollower] { state.withLock { $0.followers } }

    /// Places the watches of a store that need not exist. May wait for the disk.
    ///
    /// - Parameter path: absolute.
    func add(_ path: String, _ signals: StoreSignals) throws(ObserverError) -> StoreKey {
        let key = state.withLock { state in
            state.lastKey += 1
            return state.lastKey
        }
        let follower = PathFollower(
            path, key, signals, in: table, threads: threads,
            doubt: { [weak self] keys in self?.follow(keys) },
            fail: { [weak self, weak signals] error in
                self?.remove(key)
                signals?.end(error)
            })
        state.withLock { $0.followers[key] = follower }
        do throws(ObserverError) {
            try follower.begin()
        } catch {
            remove(key)
            throw error
        }
        return key
    }

    func remove(_ key: StoreKey) { state.withLock { $0.followers.removeValue(forKey: key) }?.end() }

    /// Hands over what events mean, without waiting.
    func handle(_ events: [InotifyEvent]) {
        let followers = followers
        var works: [StoreKey: PathFollower.Work] = [:]
        for event in events {
            if event.has(IN_Q_OVERFLOW) {
                for key in followers.keys {
                    works[key, default: []].formUnion([.overflowed, .signal, .follow])
                }
            }
            for key in table.stores(for: event) {
                if let follower = followers[key] {
                    works[key, default: []].formUnion(follower.work(for: event))
                }
            }
            if event.has(IN_IGNORED) { table.forget(event.watch) }
        }
        for (key, work) in works { followers[key]?.handle(work) }
    }

    /// Follows every path again after a mount or unmount, which inotify reports only in part.
    func followAll() { for follower in followers.values { follower.handle(.follow) } }

    /// Follows the paths of stores again whose events may have been lost, commits included.
    private func follow(_ keys: Set<StoreKey>) {
        if keys.isEmpty { return }
        let followers = followers
        for key in keys { followers[key]?.handle([.signal, .follow]) }
    }

    // MARK: For tests

    var isChanging: Bool { followers.values.contains(where: \.isChanging) }
    func followChanging() {
        for follower in followers.values where follower.isChanging { follower.handle(.follow) }
    }
}

// MARK: - Inotify

/// One event of inotify(7).
struct InotifyEvent: Sendable, Equatable {
    let watch: Int32
    let mask: UInt32
    /// The name in the watched folder that the event is about; empty for the watched file or folder
    /// itself.
    let name: String

    func has(_ bits: Int32) -> Bool {
        mask & UInt32(bits) != 0
    }
}

/// The events that are requested of inotify, by the kind of thing that is watched.
enum InotifyMask {
    /// The folder itself is moved or removed.
    ///
    /// IN_DELETE_SELF comes late for a folder that is the working directory of a process. But a folder
    /// with content cannot be removed, so this suffices for folders on the way to an existing file.
    static let folder = UInt32(IN_ONLYDIR | IN_DONT_FOLLOW | IN_MOVE_SELF | IN_DELETE_SELF)
    /// Names are also created or removed in it.
    static let names = folder | UInt32(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE)
    /// It may also become accessible: for names that could not be looked up.
    static let absentName = names | UInt32(IN_ATTRIB)
    /// The link is moved or removed. IN_ATTRIB reports at once that it lost its name.
    static let link = UInt32(IN_DONT_FOLLOW | IN_MOVE_SELF | IN_DELETE_SELF | IN_ATTRIB)
    /// The file is written or truncated. Not IN_ATTRIB: as root, SQLite gives the `-wal` its store's
    /// owner each time it opens it, so our own opening would wake us.
    static let file = UInt32(IN_DONT_FOLLOW | IN_MODIFY)
}

/// An inotify descriptor.
final class Inotify: Sendable {
    /// inotify_add_watch(2), or a replacement in tests.
    typealias AddWatch = @Sendable (_ descriptor: Int32, _ path: String, _ mask: UInt32) -> Int32

    let number: Int32
    /// For callers that wait for events on the loop.
    let descriptor: Descriptor?
    private let addWatch: AddWatch

    /// - Throws: `ObserverError` with `tooManyInstances` or `system`.
    init(
        onLoop: Bool = false, addWatch: @escaping AddWatch = { inotify_add_watch($0, $1, $2) }
    ) throws(ObserverError) {
        self.addWatch = addWatch
        number = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
        if number < 0 {
            let number = errno
            guard number != EMFILE else {
                throw ObserverError(
                    .tooManyInstances,
                    "Cannot use inotify: the limit of instances or of open files is reached.",
                    hint: "Raise it: sysctl fs.inotify.max_user_instances=1024, or LimitNOFILE=.", errno: number
                )
            }
            throw .failed(to: "use inotify", number)
        }
        do throws(SystemError) {
            descriptor = onLoop ? try Descriptor(adopting: number, for: .reading) : nil
        } catch {
            throw .failed(to: "wait for inotify", error.number)
        }
    }

    deinit {
        if let descriptor { descriptor.close() } else { close(number) }
    }

    /// Watches what is at `path`, or changes the events requested of an existing watch.
    ///
    /// - Returns: The watch, which is the same for the same inode; nil if nothing of that kind is there.
    func add(_ path: String, _ mask: UInt32) throws(ObserverError) -> Int32? {
        let watch = addWatch(number, path, mask)
        if watch >= 0 { return watch }
        let number = errno
        switch number {
        case ENOENT, ENOTDIR, ELOOP: return nil
        case EACCES:
            let isFolder = mask & UInt32(IN_ONLYDIR) != 0
            let advice = isFolder ? AccessAdvice(folder: path) : AccessAdvice(.file(path, isOwn: false))
            throw ObserverError(
                .unreadable, "Cannot watch \"\(path)\": Permission denied.", hint: advice.text(), errno: number)
        default: throw .failed(to: "watch '\(path)'", number)
        }
    }

    func remove(_ watch: Int32) {
        // EINVAL: the kernel already removed the watch together with its file.
        inotify_rm_watch(number, watch)
    }

    /// Room for some thousand events, so that a burst is read in few calls.
    private static let bufferSize = 1 << 16
    /// The largest possible event: inotify(7).
    private static let largestEvent = MemoryLayout<inotify_event>.size + Int(NAME_MAX) + 1

    /// Reads the pending events, as many as fit in the buffer, and reports whether these were all.
    func read() throws(ObserverError) -> ([InotifyEvent], isDrained: Bool) {
        let result: Result<([InotifyEvent], isDrained: Bool), ObserverError> = withUnsafeTemporaryAllocation(
            byteCount: Self.bufferSize, alignment: 16
        ) { buffer in
            let count = Glibc.read(number, buffer.baseAddress, buffer.count)
            guard count >= 0 else {
                let number = errno
                if number == EAGAIN || number == EINTR { return .success(([], number == EAGAIN)) }
                return .failure(.failed(to: "read from inotify", number))
            }
            let events = Self.parse(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            return .success((events, count <= buffer.count - Self.largestEvent))
        }
        return try result.get()
    }

    private static func parse(_ bytes: UnsafeRawBufferPointer) -> [InotifyEvent] {
        let header = MemoryLayout<inotify_event>.size
        var events: [InotifyEvent] = []
        var offset = 0
        while offset + header <= bytes.count {
            let event = bytes.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
            let end = offset + header + Int(event.len)
            // Padded with zero bytes.
            let name = bytes[(offset + header)..<end].prefix { $0 != 0 }
            events.append(
                InotifyEvent(watch: event.wd, mask: event.mask, name: String(decoding: name, as: UTF8.self)))
            offset = end
        }
        return events
    }
}
