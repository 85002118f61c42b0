import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

@Suite struct FolderContentsTests {
    private static let quiet = FolderContents.quietTime

    @Test func aFileIsLookedAtWhenItIsQuietAndNotLaterThanTheLongestWait() throws {
        var contents = FolderContents(maximum: 10)
        contents.touch("a", at: 0)
        #expect(contents.takeDue(at: Self.quiet - 1).isEmpty)
        // Written again and again.
        var now: Int64 = 0
        var looks = 0
        while now < 10 * FolderContents.longestWait {
            now += Self.quiet / 2
            looks += contents.takeDue(at: now).count
            contents.touch("a", at: now)
        }
        #expect((9...11).contains(looks))
        // And then left alone.
        #expect(contents.takeDue(at: now + 2 * Self.quiet) == ["a"])
        #expect(contents.next == nil)
    }

    @Test func aStoreThatIsGoneIsSaidAtOnce() {
        var contents = FolderContents(maximum: 10)
        contents.touch("a", at: 0, isSettled: true)
        #expect(contents.takeDue(at: 0) == ["a"])
        #expect(contents.looked("a", .store) == .appeared("a"))
        contents.touch("a", at: 1)
        #expect(contents.takeDue(at: 1) == ["a"])
        #expect(contents.looked("a", .nothing) == .gone("a"))
        #expect(!contents.isKnown("a"))
    }

    /// Whatever files come, change and go, in whatever order: what is said is what a listing at the end finds, nothing is
    /// said twice in a row, and no more files are remembered than the maximum.
    @Test func whatIsSaidIsWhatIsThere() {
        var random = Seed(UInt64.random(in: 0 ... .max))
        for _ in 0..<200 {
            let maximum = Int.random(in: 1...6, using: &random)
            var contents = FolderContents(maximum: maximum)
            var files: [String: FolderContents.Look] = [:]
            var stores: Set<String> = []
            var now: Int64 = 0
            func work(_ now: Int64) {
                for path in contents.takeDue(at: now) {
                    switch contents.looked(path, files[path] ?? .nothing) {
                    case .appeared(let path): #expect(stores.insert(path).inserted, "\(random)")
                    case .gone(let path), .replaced(let path, _):
                        #expect(stores.remove(path) != nil, "\(random)")
                    default: break
                    }
                }
                #expect(contents.paths.count <= maximum, "\(random)")
            }
            for _ in 0..<40 {
                let path = ["a", "b", "c", "d", "e", "f", "g", "h"].randomElement(using: &random) ?? ""
                let look: [FolderContents.Look] = [.nothing, .unready, .store, .unfit(.link)]
                files[path] = look.randomElement(using: &random)
                contents.touch(path, at: now)
                now += Int64.random(in: 0...Self.quiet, using: &random)
                work(now)
            }
            // Until there is room for all.
            for _ in 0..<10 {
                now += 2 * FolderContents.longestWait
                work(now)
                contents.beginListing()
                for path in files.filter({ $0.value != .nothing }).keys.sorted() {
                    contents.touch(path, at: now, isSettled: true)
                }
                for path in contents.paths { contents.touch(path, at: now, isSettled: true) }
                work(now)
            }
            let there = Set(files.filter { $0.value == .store }.keys)
            #expect(stores.subtracting(there).allSatisfy { files[$0] == .unready }, "\(random)")
            if !contents.isCrowded { #expect(there.isSubset(of: stores), "\(random)") }
        }
    }

    @Test func aFolderIsNoLongerCrowdedWhenAFileThatWasLeftOutHasGone() throws {
        let folder = try TemporaryFolder()
        for name in ["a", "b"] { try folder.write(name, "no database, but a file that counts all the same") }
        let scan = FolderScan(
            .init(folder: folder.path, maximum: 1) { _ in .fits }, try Inotify(), FolderContents(maximum: 1))
        try scan.followAll(at: 0, isSettled: true)
        try scan.lookAtDue(0)
        #expect(scan.takeEvents().contains(.crowded(true)))
        #expect(scan.next == nil)
        for name in ["a", "b"] where !scan.contents.isKnown(name) { #expect(unlink(folder.file(name)) == 0) }
        try scan.handle(try scan.inotify.read().0, at: 1)
        let next = try #require(scan.next)
        try scan.lookAtDue(next)
        #expect(scan.takeEvents() == [.crowded(false)])
    }

    @Test func aStoreIsADatabaseWithTables() async throws {
        let folder = try TemporaryFolder()
        func look(_ name: String) throws -> FolderContents.Look {
            let descriptor = open(folder.path, O_RDONLY | O_DIRECTORY)
            defer { close(descriptor) }
            return try StoreFileLook.look(name, in: descriptor)
        }
        #expect(try look("missing") == .nothing)
        try folder.write("empty", "")
        #expect(try look("empty") == .unready)
        try folder.write("short", "SQLite form")
        #expect(try look("short") == .unready)
        try folder.write(
            "text", "no database, and longer than a header of one would be, because all of that is read")
        #expect(try look("text") == .unfit(.notADatabase))
        symlink("/etc/passwd", folder.file("link"))
        #expect(try look("link") == .unfit(.link))
        mkfifo(folder.file("fifo"), 0o600)
        #expect(try look("fifo") == .unfit(.notAFile))
        mkdir(folder.file("folder"), 0o700)
        #expect(try look("folder") == .unfit(.notAFile))

        for mode in ["delete", "wal"] {
            let name = "\(mode).sqlite"
            let queue = try DatabaseQueue(path: folder.file(name))
            func run(_ sql: String) throws {
                try queue.writeWithoutTransaction { db in try db.execute(sql: sql) }
            }
            try run("PRAGMA journal_mode = \(mode)")
            if mode == "delete" { try run("PRAGMA user_version = 1") }
            #expect(try look(name) == .unready, "\(mode)")
            try run("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))")
            #expect(try look(name) == .store, "\(mode)")
            try queue.close()
        }
        // A part of it has been copied.
        let bytes = try Data(contentsOf: URL(filePath: folder.file("delete.sqlite")))
        try bytes.prefix(50_000).write(to: URL(filePath: folder.file("part")))
        #expect(try look("part") == .unready)
        try bytes.write(to: URL(filePath: folder.file("part")))
        #expect(try look("part") == .store)
        link(folder.file("part"), folder.file("other"))
        #expect(try look("other") == .unfit(.otherNames))
    }
}
