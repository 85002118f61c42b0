internal import Glibc

/// The number of a store in the tables of an observer.
typealias StoreKey = Int

/// The watches and the stores that use them. Stores share the watches of folders that they have in
/// common.
///
/// Inotify has one watch for an inode, with one mask. The mask here is the union of its users' masks.
///
/// Watching a path may wait for its disk, so the lock is not held during the call. Changes that others
/// make to the same watch meanwhile are detected afterwards: a watch that ended, or was narrowed, is
/// placed again.
final class WatchTable: Sendable {
    /// What a store needs from a watch.
    struct Use: Equatable, Sendable {
        enum Kind: Int, Sendable {
            case file, link
            /// Whether the folder itself is moved or removed.
            case folder
            /// Also which names are created and removed in it.
            case names
            /// Also whether the missing name may have become accessible.
            case absentName
        }

        var kind: Kind
        /// The names in the folder that concern the store. They are set even where events of names are
        /// not requested: some may remain from before, or come for another store.
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

        /// The union of two uses of the same inode by one store.
        func union(_ other: Use) -> Use {
            Use(kind: kind.rawValue < other.kind.rawValue ? other.kind : kind, names: names.union(other.names))
        }
    }

    private struct Watch: Sendable {
        /// The path it was last placed with; the same inode may have had another name before.
        var path: String
        /// The events that the kernel reports at least, unless the watch is being narrowed.
        var mask: UInt32
        var users: [StoreKey: Use] = [:]
        /// How many users need each mask, so that a folder with a thousand stores needs no loop over
        /// them.
        var wanted: [UInt32: Int] = [:]
        var byName: [String: Set<StoreKey>] = [:]
        var isBeingNarrowed = false
        /// The number of the last narrowing.
        var lastNarrowing = 0

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

    private struct State: Sendable {
        var watches: [Int32: Watch] = [:]
        var placed: [StoreKey: Set<Int32>] = [:]
        /// How many calls of inotify_add_watch(2) are in progress.
        var additions = 0
        /// Watches that ended during these calls, whose numbers the calls may still return. Inotify never
        /// reuses a number.
        var ended: Set<Int32> = []
        var narrowings = 0

        mutating func endAddition() {
            additions -= 1
            if additions == 0 { ended = [] }
        }

        mutating func end(_ id: Int32) {
            if let watch = watches.removeValue(forKey: id) {
                for store in watch.users.keys { placed[store]?.remove(id) }
            }
            if additions > 0 { ended.insert(id) }
        }

        mutating func noteNarrowing(of id: Int32) {
            narrowings += 1
            watches[id]?.lastNarrowing = narrowings
        }
    }

    private let inotify: Inotify
    private let state = Locked(State())

    init(inotify: Inotify) {
        self.inotify = inotify
    }

    var count: Int { state.withLock { $0.watches.count } }

    func stores(for event: InotifyEvent) -> Set<StoreKey> {
        state.withLock { state in
            guard let watch = state.watches[event.watch] else { return [] }
            return event.name.isEmpty ? Set(watch.users.keys) : watch.byName[event.name] ?? []
        }
    }

    /// Watches `path` for a store. It replaces what the store needed of the same inode before. May wait
    /// for the disk.
    ///
    /// - Returns: Nil if nothing of that kind is there.
    func place(_ path: String, for store: StoreKey, _ use: Use) throws(ObserverError) -> Int32? {
        while true {
            let narrowings = state.withLock { state in
                state.additions += 1
                return state.narrowings
            }
            let added: Int32?
            do throws(ObserverError) {
                added = try inotify.add(path, use.mask | UInt32(IN_MASK_ADD))
            } catch {
                state.withLock { $0.endAddition() }
                throw error
            }
            let isPlaced = state.withLock { state in
                defer { state.endAddition() }
                guard let id = added else { return true }
                if state.ended.contains(id) { return false }
                var watch = state.watches.removeValue(forKey: id) ?? Watch(path: path, mask: 0)
                watch.path = path
                watch.mask |= use.mask
                watch.set(use, for: store)
                defer { state.watches[id] = watch }
                state.placed[store, default: []].insert(id)
                // If the watch is being narrowed, `endNarrowing` sees the new user.
                return watch.isBeingNarrowed || watch.lastNarrowing <= narrowings
            }
            if isPlaced { return added }
        }
    }

    /// Changes the events that a store needs from a watch that it has placed; `narrow` then passes that to the
    /// kernel.
    func want(_ use: Use, of id: Int32, for store: StoreKey) {
        state.withLock { $0.watches[id]?.set(use, for: store) }
    }

    /// Ends all watches of a store except `kept`, without waiting for a disk.
    ///
    /// - Returns: The store's watches that others still use, perhaps for fewer events.
    func release(allBut kept: Set<Int32> = [], of store: StoreKey) -> [Int32] {
        state.withLock { state in
            let all = state.placed.removeValue(forKey: store) ?? []
            if !kept.isEmpty { state.placed[store] = kept }
            var shared: [Int32] = []
            for id in all {
                if !kept.contains(id) { state.watches[id]?.set(nil, for: store) }
                guard let watch = state.watches[id] else { continue }
                if watch.users.isEmpty {
                    state.end(id)
                    inotify.remove(id)
                } else if watch.wantedMask != watch.mask {
                    shared.append(id)
                }
            }
            return shared
        }
    }

    /// Forgets a watch that the kernel removed.
    func forget(_ id: Int32) { state.withLock { $0.end(id) } }

    // MARK: Asking for less

    /// Narrows watches to the events that are still needed. Otherwise a busy folder would wake the thread
    /// for names that no longer matter. May wait for the disk.
    ///
    /// - Returns: Stores to follow again, because events of theirs may have been lost.
    func narrow(_ ids: [Int32]) -> Set<StoreKey> {
        var doubtful: Set<StoreKey> = []
        for id in ids {
            while let (path, mask) = beginNarrowing(id) {
                // If this fails for good, following those paths fails the same way and reports it.
                let found = try? inotify.add(path, mask)
                doubtful.formUnion(endNarrowing(id, to: mask, found: found))
            }
        }
        return doubtful
    }

    private func beginNarrowing(_ id: Int32) -> (path: String, mask: UInt32)? {
        state.withLock { state in
            guard let watch = state.watches[id], !watch.isBeingNarrowed, watch.wantedMask != watch.mask else {
                return nil
            }
            state.additions += 1
            state.watches[id]?.isBeingNarrowed = true
            return (watch.path, watch.wantedMask)
        }
    }

    /// - Parameter found: The watch of what the path leads to now.
    private func endNarrowing(_ id: Int32, to mask: UInt32, found: Int32?) -> Set<StoreKey> {
        state.withLock { state in
            defer { state.endAddition() }
            var doubtful: Set<StoreKey> = []
            if let watch = state.watches[id] {
                let isRight = found == id
                // Users that joined meanwhile may need more events.
                doubtful.formUnion(watch.users.filter { !isRight || $0.value.mask & ~mask != 0 }.keys)
                state.watches[id]?.isBeingNarrowed = false
                // Another inode's watch was narrowed instead: this one keeps reporting too much.
                state.watches[id]?.mask = isRight ? mask : watch.wantedMask
                state.noteNarrowing(of: id)
            }
            guard let found, found != id else { return doubtful }
            if let other = state.watches[found] {
                doubtful.formUnion(other.users.keys)
                state.watches[found]?.mask = mask
                state.noteNarrowing(of: found)
            } else {
                state.end(found)
                inotify.remove(found)
            }
            return doubtful
        }
    }
}
