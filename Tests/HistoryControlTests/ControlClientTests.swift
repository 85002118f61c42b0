import Glibc
import HistoryControl
import PersistentHistory
import Testing

@Suite(.timeLimit(.minutes(60))) struct ControlClientTests {
    /// In a process of its own, whose threads are counted. Requests that wait at the same time are on one.
    @Test func allRequestsShareOneThread() async {
        await #expect(processExitsWith: .success) {
            let path = "/tmp/historyd-test-\(getpid()).sock"
            let listener = try silentListener(path)
            defer { unlink(path) }
            let client = ControlClient(socketPath: path)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 { group.addTask { _ = try? await client.send(.status) } }
                var connections: [Int32] = []
                while connections.count < 20 {
                    connections.append(accept(listener, nil, nil))
                    // All that were sent wait: none is answered yet.
                    await Task.yield()
                }
                try #expect(eventLoopThreads() == 1)
                for connection in connections { close(connection) }
            }
            try #expect(eventLoopThreads() == 1)
        }
    }

    /// One that connects and leaves, again and again, keeps nobody out who has time.
    @Test func whoFindsNoPlaceWaitsForOne() async throws {
        let path = "/tmp/historyd-test-\(getpid())-full.sock"
        let listener = try silentListener(path, places: 1)
        defer {
            unlink(path)
            close(listener)
        }
        var waiting: [Int32] = []
        while let descriptor = try? UnixAddress.connect(to: path) { waiting.append(descriptor) }
        #expect(!waiting.isEmpty)
        let short = ControlClient(socketPath: path, timeout: .milliseconds(300))
        await #expect(throws: ControlClient.Unanswered.self) { try await short.send(.status) }

        let client = ControlClient(socketPath: path, timeout: .seconds(60))
        async let answer = client.send(.status)
        for descriptor in waiting {
            close(descriptor)
            close(accept(listener, nil, nil))
        }
        let connection = await onPool {
            let connection = accept(listener, nil, nil)
            var request = [UInt8](repeating: 0, count: 4096)
            _ = read(connection, &request, request.count)
            return connection
        }
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        #expect(write(connection, text, text.utf8.count) == text.utf8.count)
        #expect(try await answer == Array("ok".utf8))
        close(connection)
    }
}

/// A socket that takes connections, and answers nothing.
private func silentListener(_ path: String, places: Int32 = 64) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let bound = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
    try #require(bound == 0 && listen(descriptor, places) == 0)
    return descriptor
}

/// The threads that NIO has started, by the names that it gives them.
private func eventLoopThreads() throws -> Int {
    let folder = try #require(opendir("/proc/self/task"))
    defer { closedir(folder) }
    var count = 0
    while let entry = readdir(folder) {
        let number = withUnsafeBytes(of: entry.pointee.d_name) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
        guard let file = fopen("/proc/self/task/\(number)/comm", "r") else { continue }
        defer { fclose(file) }
        var name = [UInt8](repeating: 0, count: 64)
        let length = fread(&name, 1, name.count, file)
        if String(decoding: name.prefix(length), as: UTF8.self).hasPrefix("NIO-ELT") { count += 1 }
    }
    return count
}
