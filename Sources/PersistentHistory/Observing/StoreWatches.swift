internal import Glibc

/// The stores that an observer watches: what is watched for each, and what an event means for it.
///
/// Watches are placed from the root down to the store's real file. Afterwards the path is followed
/// again: where it leads the same way, every later change of it makes an event on one of these watches,
/// and where it does not, they are placed again. In the long run events of unrelated files come only
/// from the store's own folder and, while there is no store, from the folders above it.
struct StoreWatches: Sendable {
    /// The signals for consumers, once the lock that guards this value is no longer held.
    enum Message: Sendable {
        case signal(StoreSignal, StoreSignals)
        case failure(ObserverError, StoreSignals)
    }

    /// What is to be done for a store after a batch of events.
    private struct Work: OptionSet {
        let rawValue: UInt8
        /// The files were written, or came or went.
        static let tell = Work(rawValue: 1)
        /// The `-wal` or the `-journal` came or went.
        static let placeSideFiles = Work(rawValue: 2)
        /// The path may lead elsewhere.
        static let follow = Work(rawValue: 4)
        static let overflowed = Work(rawValue: 8)
    }

    /// The watches of one store.
    private struct Placement: Sendable {
        var folders: Set<Int32> = []
        /// The folder that the store is in, while there is a file.
        var home: Int32?
        /// Where the path leads, while there is a file.
        var found: PathTrail.Lookup?
        var file: Int32?
        var wal: Int32?
        var journal: Int32?

        var files: Set<Int32> { Set([file, wal, journal].compactMap(\.self)) }
        var all: Set<Int32> { folders.union(files) }
    }

    private struct Store: Sendable {
        let path: String
        /// Whoever lets go of them ends the watch.
        weak let signals: StoreSignals?
        var placement = Placement()
    }

    private var table: WatchTable
    private var stores: [StoreKey: Store] = [:]
    private var lastKey = 0
    /// Stores whose paths changed faster than they could be followed.
    private(set) var unsettled: Set<StoreKey> = []

    init(inotify: Inotify) {
        table = WatchTable(inotify: inotify)
    }

    var watchCount: Int { table.count }
    var signals: [StoreSignals] { stores.values.compactMap(\.signals) }

    // MARK: Stores come and go

    /// Places the watches of a store that need not exist.
    ///
    /// - Parameter path: absolute.
    mutating func add(
        _ path: String, _ signals: StoreSignals
    ) throws(ObserverError) -> (key: StoreKey, signal: StoreSignal) {
        lastKey += 1
        let key = lastKey
        stores[key] = Store(path: path, signals: signals)
        do throws(ObserverError) {
            return (key, try follow(key))
        } catch {
            remove(key)
            throw error
        }
    }

    mutating func remove(_ key: StoreKey) {
        guard stores.removeValue(forKey: key) != nil else { return }
        unsettled.formUnion(table.keep([], for: key))
        unsettled.remove(key)
    }

    // MARK: Events

    mutating func handle(_ events: [InotifyEvent]) -> [Message] {
        var works: [StoreKey: Work] = [:]
        for event in events {
            if event.has(IN_Q_OVERFLOW) {
                for key in stores.keys { works[key, default: []].formUnion([.overflowed, .tell, .follow]) }
            }
            for key in table.stores(for: event) {
                if let store = stores[key] { works[key, default: []].formUnion(work(for: event, of: store)) }
            }
            if event.has(IN_IGNORED) { table.forget(event.watch) }
        }
        return perform(works)
    }

    /// Follows every path again: something was mounted or unmounted, which inotify reports only in part.
    mutating func followAll() -> [Message] {
        perform(stores.mapValues { _ in .follow })
    }

    mutating func followUnsettled() -> [Message] {
        perform(Dictionary(uniqueKeysWithValues: unsettled.map { ($0, Work.follow) }))
    }

    private func work(for event: InotifyEvent, of store: Store) -> Work {
        let placement = store.placement
        if event.has(IN_MODIFY) { return .tell }
        if event.watch == placement.wal || event.watch == placement.journal { return [.tell, .placeSideFiles] }
        guard let found = placement.found, !event.name.isEmpty else { return .follow }
        // Asked of the folder for another store that is not there; see `InotifyMask.file` why not for this one.
        if event.has(IN_ATTRIB) { return [] }
        guard event.watch == placement.home else { return .follow }
        let isSideFile = event.name == found.name + "-wal" || event.name == found.name + "-journal"
        return isSideFile ? [.tell, .placeSideFiles] : [.tell, .follow]
    }

    private mutating func perform(_ works: [StoreKey: Work]) -> [Message] {
        var messages: [Message] = []
        for (key, work) in works {
            guard let signals = stores[key]?.signals else { continue }
            var signal: StoreSignal = work.contains(.tell) ? .changed : []
            if work.contains(.overflowed) { signal.insert(.overflowed) }
            do throws(ObserverError) {
                if work.contains(.follow) {
                    signal.formUnion(try follow(key))
                } else if work.contains(.placeSideFiles) {
                    try placeSideFiles(of: key)
                }
                if stores[key]?.placement.file == nil { signal.remove(.changed) }
                messages.append(.signal(signal, signals))
            } catch {
                remove(key)
                messages.append(.failure(error, signals))
            }
        }
        return messages
    }

    // MARK: Placing

    /// How often a path that keeps changing is followed before other paths get their turn.
    private static let mostAttempts = 8

    /// Follows the store's path and watches everything on the way.
    ///
    /// - Returns: what the new placement says about the store.
    private mutating func follow(_ key: StoreKey) throws(ObserverError) -> StoreSignal {
        guard let store = stores[key] else { return [] }
        var trail = PathTrail(following: store.path)
        var placement = Placement()
        unsettled.insert(key)
        for _ in 0..<Self.mostAttempts {
            let wishes: [Int32: WatchTable.Use]
            (placement, wishes) = try place(trail, for: key)
            let again = PathTrail(following: store.path)
            if again == trail {
                for (watch, use) in wishes { table.want(use, of: watch, for: key) }
                unsettled.remove(key)
                break
            }
            trail = again
        }
        // What was placed before is kept until here, so that nothing goes unheard in between.
        stores[key]?.placement = placement
        unsettled.formUnion(table.keep(placement.all, for: key))

        let before = store.placement
        var signal = StoreSignal.difference(from: before.file, to: placement.file)
        if !placement.files.isSubset(of: before.files) { signal.insert(.changed) }
        return signal
    }

    /// Watches everything on the way, for more than will be wanted: each folder for the name looked up in it, too.
    ///
    /// For a name may lead elsewhere just while a watch is placed under it, and back again before the path is
    /// followed for the second time. That makes an event now.
    ///
    /// - Returns: also what is wanted of the folders and links once they are known to be the right ones.
    private mutating func place(
        _ trail: PathTrail, for key: StoreKey
    ) throws(ObserverError) -> (Placement, wishes: [Int32: WatchTable.Use]) {
        var placement = Placement()
        var wishes: [Int32: WatchTable.Use] = [:]
        for (path, wish) in Self.wishes(for: trail) {
            var use = wish
            if wish.kind == .folder { use.kind = .names }
            do throws(ObserverError) {
                guard let watch = try table.place(path, for: key, use) else { continue }
                wishes[watch] = wishes[watch]?.union(wish) ?? wish
                if path == trail.store?.folder { placement.home = watch }
            } catch  where error.code == .unreadable && path != trail.lookups.last?.folder {
                // A folder that may be passed but not read: that it is moved will not be noticed.
            }
        }
        placement.folders = Set(wishes.keys)
        guard let found = trail.store else { return (placement, wishes) }
        placement.file = try table.place(found.path, for: key, .init(kind: .file))
        placement.found = placement.file == nil ? nil : found
        placement.wal = try table.place(found.path + "-wal", for: key, .init(kind: .file))
        placement.journal = try table.place(found.path + "-journal", for: key, .init(kind: .file))
        return (placement, wishes)
    }

    /// What is wanted of each folder and link on the way, from the root down.
    private static func wishes(for trail: PathTrail) -> [(path: String, use: WatchTable.Use)] {
        var order: [String] = []
        var uses: [String: WatchTable.Use] = [:]
        func want(_ kind: WatchTable.Use.Kind, _ names: Set<String> = [], of path: String) {
            let use = WatchTable.Use(kind: kind, names: names)
            if let earlier = uses[path] {
                uses[path] = earlier.union(use)
            } else {
                uses[path] = use
                order.append(path)
            }
        }
        for lookup in trail.lookups {
            let name = lookup.name
            switch lookup.found {
            case .file: want(.names, [name, name + "-wal", name + "-journal"], of: lookup.folder)
            case _ where trail.store == nil: want(.absentName, [name], of: lookup.folder)
            default: want(.folder, [name], of: lookup.folder)
            }
            if case .folder = lookup.found { want(.folder, of: lookup.path) }
            if case .link = lookup.found { want(.link, of: lookup.path) }
        }
        return order.compactMap { path in uses[path].map { (path, $0) } }
    }

    private mutating func placeSideFiles(of key: StoreKey) throws(ObserverError) {
        guard var placement = stores[key]?.placement, let found = placement.found else { return }
        placement.wal = try table.place(found.path + "-wal", for: key, .init(kind: .file))
        placement.journal = try table.place(found.path + "-journal", for: key, .init(kind: .file))
        stores[key]?.placement = placement
        unsettled.formUnion(table.keep(placement.all, for: key))
    }
}
