import Foundation
import Testing

@testable import PersistentHistory

/// What stores that are watched together do to each other.
@Suite(.timeLimit(.minutes(60)))
struct ObservingIsolationTests {
    /// A disk that may not answer.
    private final class Disk: Sendable {
        private let isFree = TimedSemaphore()
        let isWaitedFor = OneShotEvent()

        init() { isFree.signal() }

        func hang() { isFree.wait() }
        func answer() { isFree.signal() }

        func ask() {
            if !isFree.wait(atMost: .zero) {
                isWaitedFor.signal()
                isFree.wait()
            }
            isFree.signal()
        }
    }

    @Test func aPathThatHangsKeepsNoOtherStoreFromItsEvents() async throws {
        try await withFolder { folder in
            for part in ["near", "far"] {
                try FileManager.default.createDirectory(
                    atPath: folder + "/" + part, withIntermediateDirectories: true)
                try write(to: folder + "/\(part)/store")
            }
            let disk = Disk()
            let inotify = try Inotify { descriptor, path, mask in
                if path.hasPrefix(folder + "/far") { disk.ask() }
                return inotify_add_watch(descriptor, path, mask)
            }
            try await withObserver(StoreObserver(inotify: inotify, heedsMounts: false)) { observer in
                let near = try observer.watch(folder + "/near/store")
                _ = try await near.next()
                let far = try observer.watch(folder + "/far/store")
                _ = try await far.next()
                var other: StoreSignals? = try observer.watch(folder + "/far/store")

                disk.hang()
                move(folder + "/far/store", folder + "/far/moved")
                await disk.isWaitedFor.wait()
                // Writes that come before and after.
                for _ in 0..<3 {
                    append(to: folder + "/near/store")
                    try await near.await(.changed)
                }
                try write(to: folder + "/near/store-wal")
                try await near.await(.changed)
                let third = try observer.watch(folder + "/near/third")
                try write(to: folder + "/near/third")
                try await third.await(.appeared)
                // Nor is anybody kept who lets go of it.
                other = nil
                #expect(other == nil && observer.measures.watches > 0)

                disk.answer()
                try await far.await(.disappeared)
                move(folder + "/far/moved", folder + "/far/store")
                try await far.await([.appeared, .changed])
            }
        }
    }

    /// Does something once, just after the kernel has placed a watch, and before that is noted.
    private final class Meanwhile: Sendable {
        private let action = Locked<(path: String, body: @Sendable () -> Void)?>(nil)

        func inotify() throws -> Inotify {
            try Inotify { [action] descriptor, path, mask in
                let watch = inotify_add_watch(descriptor, path, mask)
                let number = errno
                let due = action.withLock { action in
                    guard action?.path == path else { return nil as (@Sendable () -> Void)? }
                    defer { action = nil }
                    return action?.body
                }
                due?()
                errno = number
                return watch
            }
        }

        func once(_ path: String, _ body: @escaping @Sendable () -> Void) {
            action.withLock { $0 = (path, body) }
        }

        var isDone: Bool { action.withLock { $0 == nil } }
    }

    private static func watches(_ inotify: Inotify) -> StoreWatches {
        StoreWatches(inotify: inotify, threads: .init(run: { $0() }, later: { _ in }))
    }

    @Test func aWatchThatAnotherStoreEndsMeanwhileIsPlacedAgain() async throws {
        try await withFolder { folder in
            let (path, meanwhile) = (folder + "/store", Meanwhile())
            try write(to: path)
            let inotify = try meanwhile.inotify()
            let watches = Self.watches(inotify)
            let (one, two) = (StoreSignals(), StoreSignals())
            let key = try watches.add(path, one)
            meanwhile.once(path) { watches.remove(key) }
            _ = try watches.add(path, two)
            #expect(meanwhile.isDone)
            _ = two.take()
            append(to: path)
            watches.handle(try inotify.read().0)
            #expect(two.take() == .changed)
        }
    }

    @Test func aWatchThatAnotherStoreNarrowsMeanwhileIsPlacedAgain() async throws {
        try await withFolder { folder in
            let meanwhile = Meanwhile()
            let inotify = try meanwhile.inotify()
            let watches = Self.watches(inotify)
            let (one, two) = (StoreSignals(), StoreSignals())
            _ = try watches.add(folder + "/a/store", one)
            meanwhile.once(folder) {
                // The first store is there now, and no longer needs the folder's names.
                mkdir(folder + "/a", 0o755)
                append(to: folder + "/a/store")
                for _ in 0..<3 { if let events = try? inotify.read().0 { watches.handle(events) } }
            }
            _ = try watches.add(folder + "/store", two)
            #expect(meanwhile.isDone && one.take().contains(.appeared))
            try write(to: folder + "/store")
            watches.handle(try inotify.read().0)
            #expect(two.take().contains([.appeared, .changed]))
        }
    }
}
