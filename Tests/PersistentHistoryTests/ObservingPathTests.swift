import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What the observer says when files, folders and links come, go and change places.
@Suite(.timeLimit(.minutes(60)))
struct ObservingPathTests {
    // MARK: The file

    @Test func theFirstSignalComesAtOnceWhereThereIsAStore() async throws {
        try await withFolder { folder in
            try write(to: folder + "/store")
            try await withObserver { observer in
                let signals = try observer.watch(folder + "/store")
                #expect(try await signals.next() == [.appeared, .changed])
            }
        }
    }

    @Test func writesToAllThreeFilesAreHeard() async throws {
        try await withFolder { folder in
            let path = folder + "/store"
            for file in ["", "-wal", "-journal"] { try write(to: path + file) }
            try await withObserver { observer in
                let signals = try observer.watch(path)
                _ = try await signals.next()
                for file in ["", "-wal", "-journal"] {
                    append(to: path + file)
                    #expect(try await signals.next() == .changed)
                }
                // A commit with journal_mode=TRUNCATE, and one with DELETE.
                #expect(truncate(path + "-journal", 0) == 0)
                #expect(try await signals.next() == .changed)
                #expect(unlink(path + "-journal") == 0)
                #expect(try await signals.next() == .changed)
            }
        }
    }

    /// A -wal that starts over is another file each time, and each is heard.
    @Test(arguments: ["-wal", "-journal"])
    func aSideFileMayComeAndGo(side: String) async throws {
        try await withFolder { folder in
            let path = folder + "/store"
            try write(to: path)
            try await withObserver { observer in
                let signals = try observer.watch(path)
                _ = try await signals.next()
                let watches = observer.measures.watches
                for _ in 0..<50 {
                    try write(to: path + side)
                    try await signals.await(.changed)
                    append(to: path + side)
                    try await signals.await(.changed)
                    #expect(unlink(path + side) == 0)
                    try await signals.await(.changed)
                }
                // The last signal of a round may have been an earlier one's: ask for one more.
                append(to: path)
                try await signals.await(.changed)
                #expect(observer.measures.watches <= watches + 1)
            }
        }
    }

    @Test func theStoreMayBeMadeLater() async throws {
        try await withFolder { folder in
            try await withObserver { observer in
                let signals = try observer.watch(folder + "/store")
                try write(to: folder + "/store")
                try await signals.await([.appeared, .changed])
                append(to: folder + "/store")
                try await signals.await(.changed)
            }
        }
    }

    @Test func theStoreMayBeReplacedByRename() async throws {
        try await withFolder { folder in
            let path = folder + "/store"
            try write(to: path)
            try await withObserver { observer in
                let signals = try observer.watch(path)
                _ = try await signals.next()
                for _ in 0..<20 {
                    try write(to: path + ".new")
                    move(path + ".new", path)
                    try await signals.await([.replaced, .changed])
                    append(to: path)
                    try await signals.await(.changed)
                }
            }
        }
    }

    @Test func theStoreMayBeDeletedAndMadeAgain() async throws {
        try await withFolder { folder in
            let path = folder + "/store"
            try write(to: path)
            try await withObserver { observer in
                let signals = try observer.watch(path)
                _ = try await signals.next()
                for _ in 0..<20 {
                    #expect(unlink(path) == 0)
                    try await signals.await(.disappeared)
                    try write(to: path)
                    try await signals.await([.appeared, .changed])
                    append(to: path)
                    try await signals.await(.changed)
                }
            }
        }
    }

    @Test func aFolderUnderTheNameIsNoStore() async throws {
        try await withFolder { folder in
            let path = folder + "/store"
            try makeFolder(path)
            try await withObserver { observer in
                let signals = try observer.watch(path)
                #expect(rmdir(path) == 0)
                try write(to: path)
                #expect(try await signals.next()?.contains(.appeared) == true)
            }
        }
    }

    // MARK: Folders

    @Test func foldersMayBeMadeLater() async throws {
        try await withFolder { folder in
            try await withObserver { observer in
                let signals = try observer.watch(folder + "/a/b/c/store")
                for part in ["/a", "/a/b", "/a/b/c"] { try makeFolder(folder + part) }
                try write(to: folder + "/a/b/c/store")
                try await signals.await(.appeared)
                append(to: folder + "/a/b/c/store")
                try await signals.await(.changed)
            }
        }
    }

    @Test(arguments: ["/a/b", "/a"])
    func aFolderMayBeMovedAwayAndBack(part: String) async throws {
        try await withFolder { folder in
            let path = folder + "/a/b/store"
            try makeFolder(folder + "/a/b")
            try write(to: path)
            try await withObserver { observer in
                let signals = try observer.watch(path)
                _ = try await signals.next()
                for _ in 0..<10 {
                    move(folder + part, folder + "/elsewhere")
                    try await signals.await(.disappeared)
                    move(folder + "/elsewhere", folder + part)
                    try await signals.await(.appeared)
                    append(to: path)
                    try await signals.await(.changed)
                }
                // Another folder with another store comes in its place at once.
                try makeFolder(folder + "/other/b")
                try write(to: folder + "/other" + path.dropFirst(folder.count + 2))
                #expect(rename(folder + "/a", folder + "/old") == 0)
                #expect(rename(folder + "/other", folder + "/a") == 0)
                var seen: StoreSignal = []
                while !seen.contains(.replaced), !seen.contains([.disappeared, .appeared]) {
                    seen.formUnion(try #require(try await signals.next()))
                }
            }
        }
    }

    /// The kernel says late that a folder is gone while somebody is in it.
    @Test func aFolderInUseMayBeDeletedAndMadeAgain() async throws {
        try await withFolder { folder in
            let path = folder + "/a/b/store"
            try makeFolder(folder + "/a/b")
            try write(to: path)
            try await withObserver { observer in
                let signals = try observer.watch(path)
                _ = try await signals.next()
                let held = [folder + "/a", folder + "/a/b"].map { (held: String) in open(held, O_RDONLY) }
                defer { for descriptor in held { close(descriptor) } }
                #expect(unlink(path) == 0)
                try await signals.await(.disappeared)
                #expect(rmdir(folder + "/a/b") == 0)
                #expect(rmdir(folder + "/a") == 0)
                try makeFolder(folder + "/a/b")
                try write(to: path)
                try await signals.await(.appeared)
                append(to: path)
                try await signals.await(.changed)
            }
        }
    }

    // MARK: Links

    @Test func aLinkIsFollowedToTheRealStore() async throws {
        try await withFolder { folder in
            for part in ["/real", "/one", "/two"] { try makeFolder(folder + part) }
            try write(to: folder + "/real/store")
            try link(folder + "/one/link", to: "../two/link")
            try link(folder + "/two/link", to: folder + "/real/store")
            try await withObserver { observer in
                let signals = try observer.watch(folder + "/one/../one/./link")
                _ = try await signals.next()
                append(to: folder + "/real/store")
                #expect(try await signals.next() == .changed)
                // The side files are beside the real store.
                try write(to: folder + "/real/store-wal")
                try await signals.await(.changed)
            }
        }
    }

    @Test(arguments: [true, false])
    func aLinkMayBeChanged(byRename: Bool) async throws {
        try await withFolder { folder in
            for name in ["first", "second"] {
                try makeFolder(folder + "/" + name)
                try write(to: folder + "/\(name)/store")
            }
            let current = folder + "/current"
            try link(current, to: "first")
            try await withObserver { observer in
                let signals = try observer.watch(current + "/store")
                _ = try await signals.next()
                // The kernel says late that a link is gone while somebody holds it (O_PATH | O_NOFOLLOW).
                let held = open(current, 0o10_400_000)
                #expect(held >= 0)
                defer { close(held) }
                if byRename {
                    try link(folder + "/new", to: "second")
                    move(folder + "/new", current)
                    try await signals.await(.replaced)
                } else {
                    #expect(unlink(current) == 0)
                    try await signals.await(.disappeared)
                    try link(current, to: "second")
                    try await signals.await(.appeared)
                }
                append(to: folder + "/second/store")
                try await signals.await(.changed)
            }
        }
    }

    @Test func linksInACircleAreNoStore() async throws {
        try await withFolder { folder in
            try link(folder + "/a", to: "b")
            try link(folder + "/b", to: "a")
            try await withObserver { observer in
                let signals = try observer.watch(folder + "/a")
                #expect(unlink(folder + "/b") == 0)
                try write(to: folder + "/b")
                #expect(try await signals.next()?.contains(.appeared) == true)
            }
        }
    }

    /// Whatever is done to a path, in whatever order, and whenever the events are read:
    /// in the end what is there is watched.
    @Test(arguments: [UInt64.random(in: 0...UInt64.max)])
    func anyOrderOfChangesIsFollowed(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        try await withFolder { folder in
            let path = folder + "/a/b/store"
            let placing = try Placing(path)
            for round in 0..<500 {
                let wasThere = FileID(of: path) != nil
                var signal: StoreSignal = []
                for _ in 0..<Int.random(in: 1...12, using: &random) {
                    disturb(folder, with: &random)
                    if Int.random(in: 0..<4, using: &random) == 0 { signal.formUnion(try placing.read()) }
                }
                signal.formUnion(try placing.read())
                switch (wasThere, FileID(of: path) != nil) {
                case (false, true):
                    #expect(signal.contains([.appeared, .changed]), "seed \(seed), round \(round)")
                case (true, false): #expect(signal.contains(.disappeared), "seed \(seed), round \(round)")
                default: break
                }
                if FileID(of: path) != nil {
                    append(to: path)
                    #expect(try placing.read() == .changed, "seed \(seed), round \(round)")
                }
            }
            placing.watches.remove(placing.key)
            #expect(placing.watches.watchCount == 0)
        }
    }

    /// The same with the changes in the midst of placing the watches.
    @Test(arguments: [UInt64.random(in: 0...UInt64.max)])
    func changesAreFollowedWhileWatchesArePlaced(seed: UInt64) async throws {
        struct Chance: Sendable {
            var random: SplitMix
            var changesLeft = 0
        }
        try await withFolder { folder in
            let chance = Locked(Chance(random: SplitMix(state: seed)))
            /// Perhaps changes something.
            @Sendable func interfere() {
                chance.withLock { chance in
                    guard chance.changesLeft > 0, Bool.random(using: &chance.random) else { return }
                    chance.changesLeft -= 1
                    disturb(folder, with: &chance.random)
                }
            }
            let inotify = try Inotify { descriptor, path, mask in
                interfere()
                let watch = inotify_add_watch(descriptor, path, mask)
                let number = errno
                interfere()
                errno = number
                return watch
            }
            let path = folder + "/a/b/store"
            let placing = try Placing(path, inotify: inotify)
            for round in 0..<500 {
                for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                    try FileManager.default.removeItem(atPath: folder + "/" + name)
                }
                try makeFolder(folder + "/a/b")
                try write(to: path)
                chance.withLock { $0.changesLeft = 20 }
                _ = try placing.read()
                chance.withLock { $0.changesLeft = 0 }
                _ = try placing.read()

                if FileID(of: path) != nil {
                    append(to: path)
                    #expect(try placing.read() == .changed, "seed \(seed), round \(round)")
                } else if (try? makeFolder(folder + "/a/b")) != nil, (try? write(to: path)) != nil {
                    #expect(try placing.read().contains([.appeared, .changed]), "seed \(seed), round \(round)")
                }
            }
        }
    }

    /// A watch has one mask for all its users. Who asks for more of it just before it is narrowed is deaf until it is widened.
    @Test func whatIsLostWhileAWatchIsNarrowedIsFound() async throws {
        try await withFolder { folder in
            try makeFolder(folder + "/a")
            try write(to: folder + "/a/first")
            let join = Locked<(@Sendable () -> Void)?>(nil)
            let inotify = try Inotify { descriptor, path, mask in
                let isNarrowed = path == folder && mask & UInt32(IN_MASK_ADD) == 0
                guard isNarrowed, let join = join.withLock({ $0.take() }) else {
                    return inotify_add_watch(descriptor, path, mask)
                }
                join()
                let watch = inotify_add_watch(descriptor, path, mask)
                close(open(folder + "/second", O_WRONLY | O_CREAT, 0o644))
                return watch
            }
            let watches = StoreWatches(inotify: inotify, threads: .init(run: { $0() }, later: { _ in }))
            let (first, second) = (StoreSignals(), StoreSignals())
            join.withLock { $0 = { _ = try? watches.add(folder + "/second", second) } }
            // Of a folder on the way only what happens to itself is of interest in the end.
            _ = try watches.add(folder + "/a/first", first)
            #expect(join.withLock { $0 == nil })
            #expect(second.take().contains([.appeared, .changed]))
        }
    }

    /// One change to what is in the folder: fails as often as not, which is as good.
    private func disturb(_ folder: String, with random: inout SplitMix) {
        let places = ["/a", "/a/b", "/a/b/store", "/x", "/a/y", "/a/b/z", "/store"].map { folder + $0 }
        let one = places.randomElement(using: &random) ?? folder
        let other = places.randomElement(using: &random) ?? folder
        switch Int.random(in: 0..<7, using: &random) {
        case 0: mkdir(one, 0o755)
        case 1: remove(one)
        case 2: rename(one, other)
        case 3: symlink(other, one)
        case 4: close(open(one, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0o644))
        case 5: unlink(one)
        default: rmdir(one)
        }
    }

    // MARK: File systems

    static let canMount = geteuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/mount")

    /// That something is mounted makes no event of inotify.
    @Test(.enabled(if: canMount, "mounting needs root"))
    func aFileSystemMayBeMountedAndUnmounted() async throws {
        try await withFolder { folder in
            let path = folder + "/mnt/store"
            try makeFolder(folder + "/mnt")
            try await withObserver(StoreObserver()) { observer in
                let signals = try observer.watch(path)
                for _ in 0..<3 {
                    #expect(mount("none", folder + "/mnt", "tmpfs", 0, nil) == 0)
                    defer { umount2(folder + "/mnt", Int32(MNT_DETACH)) }
                    try write(to: path)
                    try await signals.await(.appeared)
                    append(to: path)
                    try await signals.await(.changed)
                    // At once, also where another process looks at it just now.
                    #expect(umount2(folder + "/mnt", Int32(MNT_DETACH)) == 0)
                    try await signals.await(.disappeared)
                }
                try write(to: path)
                try await signals.await(.appeared)
                // A mount that hides the store.
                #expect(mount("none", folder + "/mnt", "tmpfs", 0, nil) == 0)
                defer { umount2(folder + "/mnt", Int32(MNT_DETACH)) }
                try await signals.await(.disappeared)
            }
        }
    }

    // MARK: Helpers

    private func makeFolder(_ path: String) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    private func link(_ path: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
    }
}
