import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// One author is served by one tracker or daemon at a time.
@Suite(.timeLimit(.minutes(60))) struct ConsumerLeaseTests {
    @Test("A second tracker of the same author on the same state is refused, and says who has it")
    func secondTracker() async throws {
        let store = try TrackedStore()
        let (first, second, other) = (
            store.tracker(), store.tracker(), store.tracker("Widget", others: ["MainApp"])
        )
        let notes = Notes()
        await first.registerObserver(entityName: "person", operation: .insert) { _ in await notes.add("first") }
        try await running(first) {
            try store.write("INSERT INTO person (id) VALUES (1)", as: "Importer")
            _ = await notes.first(1)
            for body in [second.run, second.runOnce] {
                let error = try await #require(throws: HistoryError.self) { try await body() }
                #expect(error.code == .consumerInUse)
                #expect(error.message.contains("\"MainApp\"") && error.message.contains("this process"))
            }
            // For a program that runs it in a task, and does not wait for its error.
            #expect(second.state.storeError?.code == .consumerInUse)
            // Another author shares the state.
            try await other.runOnce()
        }
        try await second.runOnce()
    }

    @Test("A lease ends at once, although a child process that is being started has its descriptor")
    func inherited() throws {
        let folder = try TemporaryFolder()
        let id = StoreID(UUID())
        let lease = try ConsumerLease(["Main"], of: id, in: folder.path)
        let path = folder.file("\(id).lock")
        // Other tests of this process have many.
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        let descriptor = try #require(
            descriptors.first { number in
                let target = try? FileManager.default.destinationOfSymbolicLink(
                    atPath: "/proc/self/fd/\(number)")
                return target == path
            })
        let inherited = dup(try #require(Int32(descriptor)))
        defer { close(inherited) }
        lease.end()
        try ConsumerLease(["Main"], of: id, in: folder.path).end()
    }

    @Test("Another process is named by its pid, and its end ends the lease")
    func otherProcess() async throws {
        let folder = try TemporaryFolder()
        let id = StoreID(UUID())
        let python = """
            import fcntl, os, struct, sys
            author, path = sys.argv[1:]
            hash = 0xcbf29ce484222325
            for byte in author.encode(): hash = (hash ^ byte) * 0x100000001b3 % 2**64
            lock = os.open(path, os.O_RDWR | os.O_CREAT)
            place = (hash >> 25 << 22) + os.getpid()
            fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, place, 1, 0))
            print(os.getpid(), flush=True)
            sys.stdin.read()
            """
        let process = try Conversation(["/usr/bin/python3", "-c", python, "Main", folder.file("\(id).lock")])
        var lines = process.lines.makeAsyncIterator()
        let pid = try #require(await lines.next())

        let error = try #require(throws: HistoryError.self) {
            _ = try ConsumerLease(["Other", "Main"], of: id, in: folder.path)
        }
        #expect(error.code == .consumerInUse && error.message.contains("process \(pid),"), "\(error)")
        let other = try ConsumerLease(["Other"], of: id, in: folder.path)
        other.end()
        process.finish()
        #expect(await process.program.end(within: .seconds(120)) == .exited(0))
        let lease = try ConsumerLease(["Other", "Main"], of: id, in: folder.path)
        #expect(throws: HistoryError.self) { _ = try ConsumerLease(["Main"], of: id, in: folder.path) }
        lease.end()
        try ConsumerLease(["Main"], of: id, in: folder.path).end()
    }
}
