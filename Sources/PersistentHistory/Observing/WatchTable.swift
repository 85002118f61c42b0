internal import Glibc

/// The number under which an observer knows a store that it watches.
typealias StoreKey = Int

/// Which watches there are and for which stores: stores share the watches of the folders they have in common.
///
/// Inotify knows one watch for an inode, with one mask; the mask here is the union of what its users want.
struct WatchTable: Sendable {
    /// What a store wants of a watch.
    struct Use: Equatable, Sendable {
        enum Kind: Int, Sendable {
            case file, link
            /// That the folder itself moves or goes.
            case folder
            /// And which names come and go in it.
            case names
            /// And whether the name that is not there may be accessible now.
            case absentName
        }

        var kind: Kind
        /// The names in the folder that are the store's business; also where events of names are not asked
        /// for, as there may still be some from before, or for another store.
        var names: Set<String> = []

        var mask: UInt32 {
            switch kind {
            case .file: InotifyMask.file
            case .link: InotifyMask.link
            case .folder: InotifyMask.folder
            case .names: InotifyMask.names
            case .absentName: InotifyMask.absentName
            }
        }

        /// Two wishes of one store for the same inode.
        func union(_ other: Use) -> Use {
            Use(kind: kind.rawValue < other.kind.rawValue ? other.kind : kind, names: names.union(other.names))
        }
    }

    private struct Watch: Sendable {
        /// Where it was last placed; the same inode may have had another name before.
        var path: String
        var mask: UInt32
        var users: [StoreKey: Use] = [:]
        /// How many users want each mask, so that a folder with a thousand stores is not gone through.
        var wanted: [UInt32: Int] = [:]
        var byName: [String: Set<StoreKey>] = [:]

        mutating func set(_ use: Use?, for store: StoreKey) {
            if let old = users[store] {
                wanted[old.mask] = wanted[old.mask].flatMap { $0 > 1 ? $0 - 1 : nil }
                for name in old.names {
                    byName[name]?.remove(store)
                    if byName[name]?.isEmpty == true { byName[name] = nil }
                }
            }
            users[store] = use
            guard let use else { return }
            wanted[use.mask, default: 0] += 1
            for name in use.names { byName[name, default: []].insert(store) }
        }

        var wantedMask: UInt32 { wanted.keys.reduce(0, |) }
    }

    private let inotify: Inotify
    private var watches: [Int32: Watch] = [:]
    private var placed: [StoreKey: Set<Int32>] = [:]

    init(inotify: Inotify) {
        self.inotify = inotify
    }

    var count: Int { watches.count }

    func stores(for event: InotifyEvent) -> Set<StoreKey> {
        guard let watch = watches[event.watch] else { return [] }
        return event.name.isEmpty ? Set(watch.users.keys) : watch.byName[event.name] ?? []
    }

    /// Watches `path` for a store; what the store wanted of the same inode before no longer counts.
    ///
    /// - Returns: nil if nothing of that kind is there.
    mutating func place(_ path: String, for store: StoreKey, _ use: Use) throws(ObserverError) -> Int32? {
        guard let id = try inotify.add(path, use.mask | UInt32(IN_MASK_ADD)) else { return nil }
        var watch = watches.removeValue(forKey: id) ?? Watch(path: path, mask: 0)
        watch.path = path
        watch.mask |= use.mask
        watch.set(use, for: store)
        watches[id] = watch
        placed[store, default: []].insert(id)
        return id
    }

    /// Changes the events that a store wants from a watch that it has placed; `keep` then passes that to the kernel.
    mutating func want(_ use: Use, of id: Int32, for store: StoreKey) {
        watches[id]?.set(use, for: store)
    }

    /// Ends all that a store has placed, but for `kept`.
    ///
    /// - Returns: stores to be followed again, as another inode was found under one of their paths.
    mutating func keep(_ kept: Set<Int32>, for store: StoreKey) -> [StoreKey] {
        let all = placed.removeValue(forKey: store) ?? []
        if !kept.isEmpty { placed[store] = kept }
        var doubtful: [StoreKey] = []
        for id in all {
            if !kept.contains(id) { watches[id]?.set(nil, for: store) }
            if watches[id]?.users.isEmpty == true {
                watches[id] = nil
                inotify.remove(id)
            } else {
                doubtful += narrow(id)
            }
        }
        return doubtful
    }

    /// Forgets a watch that the kernel removed.
    mutating func forget(_ id: Int32) {
        guard let watch = watches.removeValue(forKey: id) else { return }
        for store in watch.users.keys { placed[store]?.remove(id) }
    }

    /// Requests no more than is still needed: the names of a busy folder, once it no longer matters
    /// which come and go, would wake us for nothing.
    private mutating func narrow(_ id: Int32) -> [StoreKey] {
        guard let watch = watches[id], watch.wantedMask != watch.mask else { return [] }
        watches[id]?.mask = watch.wantedMask
        do throws(ObserverError) {
            guard let other = try inotify.add(watch.path, watch.wantedMask) else {
                return Array(watch.users.keys)
            }
            if other == id { return [] }
            // The path leads to another inode by now, and its mask is not what it was.
            guard let found = watches[other] else {
                inotify.remove(other)
                return Array(watch.users.keys)
            }
            return Array(watch.users.keys) + Array(found.users.keys)
        } catch {
            // Following those paths meets the same obstacle, if it lasts, and reports it.
            return Array(watch.users.keys)
        }
    }
}
