internal import Glibc

/// The state of a `FolderWatcher` on its thread: watches and files.
///
/// Folders are opened one by one from the watched folder down, never through a link. Files are watched
/// and looked at relative to the open folder. So a user who may rename things below it cannot redirect
/// the scan.
final class FolderScan {
    private static let ofPath = UInt32(
        IN_ONLYDIR | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MOVE_SELF | IN_DELETE_SELF)
    private static let ofUnready = UInt32(IN_DONT_FOLLOW | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB)
    private static let mostAttempts = 8
    /// How often a folder with too many files is listed again, in nanoseconds.
    private static let listingInterval: Int64 = 5_000_000_000

    let inotify: Inotify
    private let rules: FolderWatcher.Rules
    private(set) var contents: FolderContents
    private var listedAt: Int64 = 0
    private var events: [FolderEvent] = []
    private var wasCrowded = false
    private var wasMissing = false
    /// The folder, with links resolved; nil while it does not exist.
    private var root: (path: String, file: FileID)?
    /// The names on the path to the folder, by the watch of the folder that contains them.
    private var way: [Int32: Set<String>] = [:]
    /// Folders by watch, as paths relative to the root, which is "".
    private var folders: [Int32: String] = [:]
    /// Watches of files that are not ready, and of their logs.
    private var unready: [Int32: String] = [:]
    private var watchesOfUnready: [String: Set<Int32>] = [:]
    /// Read where a file is found that is no store.
    private lazy var servedBefore = rules.servedBefore()

    /// - Parameter contents: What is already known.
    init(_ rules: FolderWatcher.Rules, _ inotify: Inotify, _ contents: FolderContents) {
        self.rules = rules
        self.inotify = inotify
        self.contents = contents
    }

    /// When the next work without an event is due.
    var next: Int64? {
        [contents.next, contents.hasRoom ? listedAt + Self.listingInterval : nil].compactMap(\.self).min()
    }

    func takeEvents() -> [FolderEvent] {
        if contents.isCrowded != wasCrowded {
            wasCrowded = contents.isCrowded
            events.append(.crowded(wasCrowded))
        }
        defer { events = [] }
        return events
    }

    // MARK: Events

    func handle(_ events: [InotifyEvent], at now: Int64) throws(ObserverError) {
        var followsAll = false
        for event in events {
            if event.has(IN_Q_OVERFLOW) { followsAll = true }
            if let names = way[event.watch], event.name.isEmpty || names.contains(event.name) {
                followsAll = true
            }
            if event.has(IN_IGNORED) { forget(event.watch) }
            if let path = unready[event.watch] { contents.touch(path, at: now) }
            guard let folder = folders[event.watch] else { continue }
            if folder.isEmpty, event.has(IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT) { followsAll = true }
            if event.name.isEmpty { continue }
            let path = folder.isEmpty ? event.name : "\(folder)/\(event.name)"
            if event.has(IN_ISDIR) {
                try folderChanged(path, isThere: event.has(IN_CREATE | IN_MOVED_TO), at: now)
            } else {
                fileChanged(path, isThere: event.has(IN_CREATE | IN_MOVED_TO), at: now)
            }
        }
        if followsAll { try followAll(at: now) }
    }

    private func fileChanged(_ path: String, isThere: Bool, at now: Int64) {
        if contents.isKnown(path) { return contents.touch(path, at: now) }
        if let store = Self.store(ofSideFile: path) {
            // The side files of a served store come and go with each commit.
            if contents.isKnown(store), !contents.isStore(store) { contents.touch(store, at: now) }
            return
        }
        if isThere { return found(path, at: now, isSettled: false) }
        if rules.fit(path) == .fits { contents.leftOutIsGone() }
    }

    private func found(_ path: String, at now: Int64, isSettled: Bool) {
        switch rules.fit(path) {
        case .fits: contents.touch(path, at: now, isSettled: isSettled)
        case .unusable: events.append(.refused(path, .unusableName))
        case .other: break
        }
    }

    private func folderChanged(_ path: String, isThere: Bool, at now: Int64) throws(ObserverError) {
        // A folder has replaced a store, or a possible store.
        if contents.isKnown(path) { contents.touch(path, at: now) }
        leave(path, at: now)
        if isThere { try enter(path, at: now, isSettled: false) }
    }

    private func forget(_ watch: Int32) {
        way[watch] = nil
        folders[watch] = nil
        if let path = unready.removeValue(forKey: watch) { watchesOfUnready[path]?.remove(watch) }
    }

    // MARK: Folders

    /// Follows the path to the folder, and lists everything again.
    func followAll(at now: Int64, isSettled: Bool = false) throws(ObserverError) {
        try followPath()
        if (root == nil) != wasMissing {
            wasMissing = root == nil
            events.append(.missing(wasMissing))
        }
        let before = folders
        folders = [:]
        contents.beginListing()
        listedAt = now
        if root != nil { try enter("", at: now, isSettled: isSettled) }
        for watch in before.keys where folders[watch] == nil && way[watch] == nil { inotify.remove(watch) }
        // A look finds out what has gone.
        for path in contents.paths { contents.touch(path, at: now, isSettled: true) }
    }

    private func followPath() throws(ObserverError) {
        let path = "\(rules.folder)/\(PathTrail.end)"
        var trail = PathTrail(following: path)
        for _ in 0..<Self.mostAttempts {
            var names: [Int32: Set<String>] = [:]
            for lookup in trail.lookups.dropLast(trail.leadsToEnd ? 1 : 0) {
                // A folder with search permission only: moving it is not noticed.
                guard let watch = try? inotify.add(lookup.folder, Self.ofPath | UInt32(IN_MASK_ADD)) else {
                    continue
                }
                names[watch, default: []].insert(lookup.name)
            }
            for watch in way.keys where names[watch] == nil && folders[watch] == nil { inotify.remove(watch) }
            way = names
            let again = PathTrail(following: path)
            if again == trail { break }
            trail = again
        }
        root = nil
        guard trail.leadsToEnd, let folder = trail.lookups.last?.folder else {
            // A missing folder may come, but one that is out of reach needs an operator.
            if access(rules.folder, R_OK | X_OK) < 0, errno == EACCES { throw unreadable }
            return
        }
        var status = stat()
        guard lstat(folder, &status) == 0 else { return }
        root = (folder, FileID(status))
        LinkFreeFolders.add(folder)
    }

    private func checkNoLack(_ number: Int32) throws(ObserverError) {
        try ObserverError.checkNoLack(number, to: "list the folder \"\(rules.folder)\"")
    }

    private var unreadable: ObserverError {
        ObserverError(
            .unreadable, "The folder \"\(rules.folder)\" cannot be read: Permission denied.",
            hint: AccessAdvice(folder: rules.folder).text())
    }

    /// Watches a folder, then lists it.
    private func enter(_ path: String, at now: Int64, isSettled: Bool) throws(ObserverError) {
        guard path.isEmpty || rules.enters?(path) == true else { return }
        var rest = [path]
        while let path = rest.popLast() {
            guard let descriptor = open(path) else {
                let number = errno
                if path.isEmpty, number == EACCES { throw unreadable }
                try checkNoLack(number)
                continue
            }
            guard let names = fdopendir(descriptor) else {
                let number = errno
                close(descriptor)
                try checkNoLack(number)
                continue
            }
            // This closes the descriptor, too.
            defer { closedir(names) }
            let mask = Self.ofPath | UInt32(IN_MASK_ADD)
            guard let watch = try inotify.add("/proc/self/fd/\(descriptor)", mask) else { continue }
            folders[watch] = path
            while let entry = readdir(names) {
                let name = OpenFiles.name(of: entry)
                if name == "." || name == ".." { continue }
                let below = path.isEmpty ? name : "\(path)/\(name)"
                if Self.isFolder(name, entry.pointee.d_type, in: descriptor) {
                    if rules.enters?(below) == true { rest.append(below) }
                } else if Self.store(ofSideFile: name) == nil {
                    found(below, at: now, isSettled: isSettled)
                }
            }
        }
    }

    private static func isFolder(_ name: String, _ type: UInt8, in folder: Int32) -> Bool {
        guard type == UInt8(DT_UNKNOWN) else { return type == UInt8(DT_DIR) }
        var status = stat()
        return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// A folder has gone.
    private func leave(_ path: String, at now: Int64) {
        let below = "\(path)/"
        for (watch, folder) in folders where folder == path || folder.hasPrefix(below) {
            inotify.remove(watch)
            folders[watch] = nil
        }
        guard rules.enters != nil else { return }
        contents.leftOutIsGone()
        for file in contents.paths where file.hasPrefix(below) {
            contents.touch(file, at: now, isSettled: true)
        }
    }

    /// Opens a folder by its path relative to the root, through no link.
    ///
    /// - Returns: Nil if it cannot be opened, with the reason in errno(3).
    private func open(_ path: String) -> Int32? {
        guard let root else {
            errno = ENOENT
            return nil
        }
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        var descriptor = Glibc.open(root.path, flags)
        for name in PathNames.inReverse(path).reversed() where descriptor >= 0 {
            let next = openat(descriptor, name, flags)
            let number = errno
            close(descriptor)
            errno = number
            descriptor = next
        }
        return descriptor >= 0 ? descriptor : nil
    }

    // MARK: Files

    /// The store that a side file of this name belongs to.
    private static func store(ofSideFile name: String) -> String? {
        ["-wal", "-shm", "-journal"].first { name.hasSuffix($0) }.map { String(name.dropLast($0.count)) }
    }

    func lookAtDue(_ now: Int64) throws(ObserverError) {
        for path in contents.takeDue(at: now) {
            let look = try look(path)
            if let event = contents.looked(path, look) { events.append(event) }
            if contents.isStore(path) || !contents.isKnown(path) { stopWatching(path) }
        }
        if contents.hasRoom, now >= listedAt + Self.listingInterval { try followAll(at: now) }
    }

    private func look(_ path: String) throws(ObserverError) -> FolderContents.Look {
        guard let folder = open(path.utf8.contains(UInt8(ascii: "/")) ? PathNames.parent(of: path) : "") else {
            try checkNoLack(errno)
            return .nothing
        }
        defer { close(folder) }
        let name = PathNames.inReverse(path).first ?? path
        // Only its service reads a served store.
        let isServed = contents.isStore(path)
        let look = try StoreFileLook.look(name, in: folder, isServed: isServed)
        switch look {
        // Its consumers wait for it.
        case .unready where servedBefore.contains(path),
            .unfit(.notADatabase) where servedBefore.contains(path):
            return .store
        case .unready, .unfit(.notADatabase), .unfit(.otherNames):
            let before = watchesOfUnready[path] ?? []
            for file in [name, name + "-wal"] {
                guard let watch = try inotify.add("/proc/self/fd/\(folder)/\(file)", Self.ofUnready) else {
                    continue
                }
                unready[watch] = path
                watchesOfUnready[path, default: []].insert(watch)
            }
            // Catches writes from before the watch was placed.
            if watchesOfUnready[path] ?? [] != before {
                return try StoreFileLook.look(name, in: folder, isServed: isServed)
            }
        default: break
        }
        return look
    }

    private func stopWatching(_ path: String) {
        for watch in watchesOfUnready.removeValue(forKey: path) ?? [] {
            unready[watch] = nil
            inotify.remove(watch)
        }
    }
}

extension PathTrail {
    /// The name that is looked up in the folder. No configuration has a path with it.
    fileprivate static let end = "\u{1}"
    /// Whether everything on the path but the last name exists.
    fileprivate var leadsToEnd: Bool { lookups.last?.name == Self.end }
}
