internal import Glibc

/// Waits until an operator may have changed the permissions of a store.
enum RightsWatch {
    /// Returns when the owner, group, mode or access control list of the store, of a file beside it or of
    /// a folder on the way to it has changed, when one of them was created or removed, or after a time.
    ///
    /// What cannot be watched (a folder that may not be read, the limit of watches) is left to the time
    /// limit.
    static func wait(for path: String, atMost limit: Duration) async {
        await PersistentHistory.wait(atMost: limit) { await hear(of: path) }
    }

    private static func hear(of path: String) async {
        let inotify: Inotify
        do {
            inotify = try Inotify(onLoop: true)
        } catch {
            // Only the time limit is left.
            return await OneShotEvent().wait()
        }
        let names = await onPool { place(inotify, on: path) }
        while !Task.isCancelled {
            _ = await inotify.descriptor?.wait()
            while let events = try? inotify.read().0, !events.isEmpty {
                if events.contains(where: { $0.name.isEmpty || names.contains($0.name) }) { return }
            }
        }
    }

    private static let mask = UInt32(IN_ATTRIB | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE)

    /// - Returns: The names that matter in the folders that are watched.
    private static func place(_ inotify: Inotify, on path: String) -> Set<BinaryText> {
        let path = StorePath.withoutLinks(path) ?? path
        var names: Set<BinaryText> = []
        var folder = "/"
        let parts = path.utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
        for name in parts {
            names.insert(name)
            _ = try? inotify.add(folder, mask)
            folder = PathTrail.join(folder, name)
        }
        _ = try? inotify.add(path, UInt32(IN_ATTRIB))
        if let name = parts.last {
            names.formUnion(SideFiles.Kind.allCases.map { BinaryText(name + $0.rawValue) })
        }
        return names
    }
}

extension HistoryError {
    /// Whether an operator has to change the permissions of the store.
    var isOfRights: Bool { code == .wouldLockOut || code == .storeUnreadable }
}

extension OneShotEvent {
    /// Sleeps until the permissions of a store may have changed, some time has passed, or a stop is requested.
    package func sleepUntilRightsChange(of path: String, atMost limit: Duration) async {
        // Several changes usually come together.
        let pause = min(limit, .milliseconds(50))
        await sleep(for: pause)
        await cutShort { await RightsWatch.wait(for: path, atMost: limit - pause) }
    }
}
