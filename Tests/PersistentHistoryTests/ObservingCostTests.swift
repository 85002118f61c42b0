import Foundation
import Testing

@testable import PersistentHistory

/// What the observer does not do: wake for what is not its own, keep watches, fall silent.
@Suite(.timeLimit(.minutes(60)))
struct ObservingCostTests {
    @Test func nothingHappensWhileNothingHappens() async throws {
        try await withFolder { folder in
            let paths = (0..<100).map { folder + "/store\($0)" }
            for path in paths { try write(to: path) }
            try await withObserver { observer in
                let watched = try paths.map { try observer.watch($0) }
                // The only way to see that nothing comes is to let time pass; what others move in a folder
                // above wakes it now and then.
                var isQuiet = false
                for _ in 0..<20 where !isQuiet {
                    let before = observer.measures.wakeUps
                    try await Task.sleep(for: .milliseconds(300))
                    isQuiet = observer.measures.wakeUps == before
                }
                #expect(isQuiet)
                withExtendedLifetime(watched) {}
            }
        }
    }

    @Test func unrelatedFilesInTheFolderCostNothing() async throws {
        try await withFolder { folder in
            for name in ["store", "other", "store-shm"] { try write(to: folder + "/" + name) }
            let placing = try Placing(folder + "/store")
            // Of folders above, what came before the store was found.
            _ = try placing.read()
            for name in ["other", "store-shm"] {
                append(to: folder + "/" + name)
                #expect(truncate(folder + "/" + name, 0) == 0)
            }
            // What SQLite does as root at each opening.
            for name in ["other", "store"] { #expect(chmod(folder + "/" + name, 0o600) == 0) }
            let events = try placing.events()
            #expect(events == [])
        }
    }

    /// For a store that is not there, the folder's IN_ATTRIB is wanted; it also tells of what SQLite does
    /// as root to another store's -wal at each opening.
    @Test func aStoreIsNotWokenByAttributesBesideOneThatIsNotThere() async throws {
        try await withFolder { folder in
            for name in ["one", "one-wal"] { try write(to: folder + "/" + name) }
            try await withObserver { observer in
                let one = try observer.watch(folder + "/one")
                _ = try await one.next()
                let two = try observer.watch(folder + "/two")
                for _ in 0..<100 {
                    for name in ["one", "one-wal"] { chmod(folder + "/" + name, 0o600) }
                }
                // When this is heard, all of that has been.
                try write(to: folder + "/two")
                try await two.await(.appeared)
                #expect(unlink(folder + "/one") == 0)
                #expect(try await one.next() == .disappeared)
            }
        }
    }

    @Test func storesInOneFolderAreToldApart() async throws {
        try await withFolder { folder in
            for name in ["one", "two"] { try write(to: folder + "/" + name) }
            try await withObserver { observer in
                let one = try observer.watch(folder + "/one")
                _ = try await one.next()
                let watches = observer.measures.watches
                let two = try observer.watch(folder + "/two")
                _ = try await two.next()
                // The folder's watch serves both.
                #expect(observer.measures.watches == watches + 1)

                for _ in 0..<100 {
                    try write(to: folder + "/two-wal")
                    try await two.await(.changed)
                    #expect(unlink(folder + "/two-wal") == 0)
                    try await two.await(.changed)
                }
                #expect(unlink(folder + "/one") == 0)
                // No `changed` of the other's came before.
                #expect(try await one.next() == .disappeared)
            }
        }
    }

    @Test func twoConsumersOfOneStoreBothHear() async throws {
        try await withFolder { folder in
            try write(to: folder + "/store")
            try await withObserver { observer in
                let one = try observer.watch(folder + "/store")
                let two = try observer.watch(folder + "/store")
                _ = try await (one.next(), two.next())
                try write(to: folder + "/store-wal")
                try await one.await(.changed)
                try await two.await(.changed)
            }
        }
    }

    @Test func lettingGoEndsTheWatch() async throws {
        try await withFolder { folder in
            try write(to: folder + "/store")
            try await withObserver { observer in
                for _ in 0..<20 {
                    let signals = try observer.watch(folder + "/store")
                    #expect(observer.measures.watches > 0)
                    _ = try await signals.next()
                }
                #expect(observer.measures.watches == 0)
            }
        }
    }

    /// The names of a folder that everybody uses are heard only while they matter.
    @Test func foldersAboveAreHeardOnlyWhileThereIsNoStore() async throws {
        try await withFolder { folder in
            let placing = try Placing(folder + "/a/store")
            try FileManager.default.createDirectory(atPath: folder + "/a", withIntermediateDirectories: true)
            try write(to: folder + "/a/store")
            #expect(try placing.read() == [.appeared, .changed])
            try write(to: folder + "/unrelated")
            let events = try placing.events()
            #expect(events == [])
        }
    }

    static let queueLength =
        (try? String(contentsOfFile: "/proc/sys/fs/inotify/max_queued_events", encoding: .utf8))
        .flatMap { Int($0.trimmingCharacters(in: .newlines)) } ?? .max

    @Test(.enabled(if: queueLength <= 65_536, "the queue is too long to be filled by a test"))
    func anOverflowMeansLookAtEverything() async throws {
        try await withFolder { folder in
            for name in ["one", "two"] { try write(to: folder + "/" + name) }
            let observer = try StoreObserver(inotify: Inotify(), heedsMounts: false)
            let one = try observer.watch(folder + "/one")
            let two = try observer.watch(folder + "/two")
            _ = try await (one.next(), two.next())
            // Nobody reads the queue yet. Events that are equal to the one before are not queued.
            for number in 0...(Self.queueLength / 2) {
                close(open(folder + "/\(number % 2)", O_WRONLY | O_CREAT, 0o644))
                unlink(folder + "/\(number % 2)")
            }
            // Nobody is told of this.
            try write(to: folder + "/new")
            move(folder + "/new", folder + "/two")
            try await withObserver(observer) { _ in
                try await one.await([.overflowed, .changed])
                try await two.await([.overflowed, .changed, .replaced])
                try write(to: folder + "/two-wal")
                try await two.await(.changed)
            }
        }
    }

    // MARK: Limits and ends

    @Test func theLimitOfWatchesIsAnErrorThatSaysWhatToDo() async throws {
        try await withFolder { folder in
            let left = Locked(1000)
            let inotify = try Inotify { descriptor, path, mask in
                let isLeft = left.withLock { left in
                    left -= 1
                    return left >= 0
                }
                if isLeft { return inotify_add_watch(descriptor, path, mask) }
                errno = ENOSPC
                return -1
            }
            let path = folder + "/store"
            try write(to: path)
            try await withObserver(StoreObserver(inotify: inotify, heedsMounts: false)) { observer in
                let signals = try observer.watch(path)
                _ = try await signals.next()
                left.withLock { $0 = 0 }

                // A new store is refused, and leaves nothing behind.
                let watches = observer.measures.watches
                let error = #expect(throws: ObserverError.self) { try observer.watch(path) }
                #expect(error?.code == .tooManyWatches)
                #expect(error?.hint?.contains("fs.inotify.max_user_watches") == true)
                #expect(observer.measures.watches == watches)

                // One that was watched does not fall silent.
                try write(to: path + "-wal")
                let end = await #expect(throws: ObserverError.self) {
                    while try await signals.next() != nil {}
                }
                #expect(end?.code == .tooManyWatches)
            }
        }
    }

    @Test func foldersAboveNeedNotBeReadable() async throws {
        try await withFolder { folder in
            let inotify = try Inotify { descriptor, path, mask in
                if path.hasPrefix(folder + "/secret") || path.hasPrefix(folder + "/open/") {
                    return inotify_add_watch(descriptor, path, mask)
                }
                errno = EACCES
                return -1
            }
            try FileManager.default.createDirectory(
                atPath: folder + "/open/shop", withIntermediateDirectories: true)
            let placing = try Placing(folder + "/open/shop/store", inotify: inotify)
            try write(to: folder + "/open/shop/store")
            #expect(try placing.read() == [.appeared, .changed])

            // The store's own folder must be.
            let error = #expect(throws: ObserverError.self) { try Placing(folder + "/store", inotify: inotify) }
            #expect(error?.code == .unreadable)
        }
    }

    @Test func sequencesEndWithTheObserver() async throws {
        try await withFolder { folder in
            let observer = try StoreObserver(inotify: Inotify(), heedsMounts: false)
            let signals = try observer.watch(folder + "/store")
            try await withObserver(observer) { _ in }
            #expect(try await signals.next() == nil)
            #expect(throws: ObserverError.self) { try observer.watch(folder + "/store") }
            await #expect(throws: ObserverError.self) { try await observer.run() }
        }
    }

    @Test func sequencesEndWithAnObserverThatNeverRan() async throws {
        let signals: StoreSignals
        do {
            signals = try StoreObserver().watch("/nowhere/store")
        }
        #expect(try await signals.next() == nil)
    }

    @Test func cancellingEndsTheObserverAndTheWaiting() async throws {
        try await withFolder { folder in
            let observer = try StoreObserver(inotify: Inotify(), heedsMounts: false)
            let signals = try observer.watch(folder + "/store")
            let running = Task { try await observer.run() }
            let waiting = Task { while try await signals.next() != nil {} }
            waiting.cancel()
            try await waiting.value
            running.cancel()
            try await running.value
        }
    }

    @Test func stoppingBeforeRunningIsNotForgotten() async throws {
        let observer = try StoreObserver()
        observer.stop()
        try await observer.run()
    }

    @Test func aThousandStoresNeedOneDescriptor() async throws {
        try await withFolder { folder in
            try await withObserver { observer in
                var watched: [StoreSignals] = []
                for number in 0..<1000 {
                    try write(to: folder + "/store\(number)")
                    watched.append(try observer.watch(folder + "/store\(number)"))
                }
                for index in watched.indices {
                    try await watched[index].await(.appeared)
                    try write("x", to: folder + "/store\(index)-wal")
                }
                for index in watched.indices { try await watched[index].await(.changed) }
            }
        }
    }
}
