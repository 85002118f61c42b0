internal import Glibc

/// The watches of one store.
struct Placement: Sendable {
    /// The store's file, where there is one.
    struct Store: Sendable {
        let path: String
        let name: String
        /// The watch of the folder that contains it.
        let folder: Int32
        let file: Int32
        var wal: Int32?
        var journal: Int32?
    }

    var folders: Set<Int32> = []
    var store: Store?

    var file: Int32? { store?.file }
    var sideFiles: Set<Int32> { Set([store?.wal, store?.journal].compactMap(\.self)) }
    var files: Set<Int32> { store.map { sideFiles.union([$0.file]) } ?? [] }
    var all: Set<Int32> { folders.union(files) }

    func isSideFile(_ event: InotifyEvent) -> Bool {
        guard let store, event.watch == store.folder else { return false }
        return event.name == store.name + "-wal" || event.name == store.name + "-journal"
    }

    /// Whether the `-wal` or the `-shm` has lost its name.
    func isLossOfSideFile(_ event: InotifyEvent) -> Bool {
        guard let store, event.watch == store.folder, event.has(IN_DELETE | IN_MOVED_FROM) else { return false }
        return event.name == store.name + "-wal" || event.name == store.name + "-shm"
    }

    func isIndex(_ event: InotifyEvent) -> Bool {
        event.watch == store?.folder && event.name == store.map { $0.name + "-shm" }
    }

    func withSideFiles(
        _ place: (String) throws(ObserverError) -> Int32?
    ) throws(ObserverError) -> Placement {
        guard let store else { return self }
        var placement = self
        placement.store?.wal = try place(store.path + "-wal")
        placement.store?.journal = try place(store.path + "-journal")
        return placement
    }
}

extension PathTrail {
    /// What to watch for in each folder and link on the way, from the root down.
    var wishes: [(path: String, use: WatchTable.Use)] {
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
        for lookup in lookups {
            let name = lookup.name
            switch lookup.found {
            case .file:
                want(.names, [name, name + "-wal", name + "-shm", name + "-journal"], of: lookup.folder)
            case _ where store == nil: want(.absentName, [name], of: lookup.folder)
            default: want(.folder, [name], of: lookup.folder)
            }
            if case .folder = lookup.found { want(.folder, of: lookup.path) }
            if case .link = lookup.found { want(.link, of: lookup.path) }
        }
        return order.compactMap { path in uses[path].map { (path, $0) } }
    }
}
