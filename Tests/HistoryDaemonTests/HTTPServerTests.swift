import Glibc
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

/// What becomes of connections at a stop: the thread that serves them lives on, for all servers of the process.
@Suite(.timeLimit(.minutes(60))) struct HTTPServerTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func server(_ name: String) throws -> HTTPServer {
        HTTPServer(
            [try UnixAddress.listen(at: folder.file(name), mode: 0o600)],
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    /// Whether the server ends a connection, whatever comes before that.
    private func ends(_ descriptor: Int32) -> Bool {
        var file = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var buffer = [UInt8](repeating: 0, count: 4096)
        while poll(&file, 1, 30_000) == 1 { if read(descriptor, &buffer, buffer.count) <= 0 { return true } }
        return false
    }

    private func ask(_ name: String) throws -> Int32 {
        let descriptor = try UnixAddress.connect(to: folder.file(name))
        let request = Array("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        #expect(write(descriptor, request, request.count) == request.count)
        return descriptor
    }

    @Test("A stop waits for requests in flight, and ends all connections, also those that are not served yet")
    func stop() async throws {
        let (one, other) = (try server("one"), try server("other"))
        let (stop, asked) = (OneShotEvent(), OneShotEvent())
        let hasEnded = Locked(false)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await other.run { _ in HTTPAnswer("well") } }
            var clients = [try ask("one")]
            let running = group.addTaskThatEnds {
                try? await stop.cancelling {
                    try await one.run { _ in
                        asked.signal()
                        // Only a stop ends it.
                        try? await Task.sleep(for: .seconds(3600))
                        hasEnded.withLock { $0 = true }
                        return HTTPAnswer("late")
                    }
                }
            }
            await asked.wait()
            for _ in 0..<100 { clients.append(try UnixAddress.connect(to: folder.file("one"))) }
            stop.signal()
            await running.wait()
            #expect(hasEnded.withLock { $0 })
            for client in clients {
                #expect(ends(client))
                close(client)
            }
            #expect(throws: (any Error).self) { _ = try UnixAddress.connect(to: folder.file("one")) }

            // The other one goes on.
            let client = try ask("other")
            #expect(ends(client))
            close(client)
            group.cancelAll()
        }
    }
}

extension ThrowingTaskGroup<Void, any Error> {
    /// - Returns: Signaled when the task has ended.
    fileprivate mutating func addTaskThatEnds(_ body: @escaping @Sendable () async throws -> Void)
        -> OneShotEvent
    {
        let end = OneShotEvent()
        addTask {
            defer { end.signal() }
            try await body()
        }
        return end
    }
}
