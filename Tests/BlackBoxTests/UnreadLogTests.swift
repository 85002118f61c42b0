import Foundation
import TestSupport
import Testing

/// Off systemd the log goes to standard error, whose reader may hang: a container's log driver, a stopped terminal.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct UnreadLogTests {
    @Test("Deliveries, health and a stop do not wait for a log that nobody reads; what is read later is whole")
    func unread() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), more: #""logLevel": "debug""#)
            let pipe = try FullPipe(bench.path("log"))
            defer { pipe.end() }
            let daemon = try bench.launchDaemon(
                under: ["/bin/sh", "-c", "exec \"$@\" 2>\(bench.path("log"))", "sh"])
            try await eventually("health") {
                try await bench.ctl("health").status == .exited(0)
            }
            for number in 1...20 {
                try await bench.write("INSERT INTO person (id) VALUES (\(number))", as: "Widget")
            }
            try await eventually("deliveries") { try bench.calls().count == 20 }
            #expect(try await bench.ctl("health").status == .exited(0))
            // What waits is written when it is read, in order.
            let lines = pipe.read(until: "event=ready")
            #expect(lines.contains("Store \"contacts\" is open"), "\(lines)")
            pipe.fill()
            try await daemon.stop(within: .seconds(60))
        }
    }
}

/// A named pipe into which nothing more can be written.
private struct FullPipe {
    private let descriptor: Int32
    private static let filling = UInt8(ascii: "#")

    init(_ path: String) throws {
        try #require(mkfifo(path, 0o600) == 0)
        descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        try #require(descriptor >= 0)
        fill()
    }

    func fill() {
        let bytes = [UInt8](repeating: Self.filling, count: 4096)
        while write(descriptor, bytes, bytes.count) > 0 || write(descriptor, bytes, 1) > 0 {}
    }

    /// What was written, up to a text in it; blocks until that is there.
    func read(until text: String) -> String {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            var file = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&file, 1, 20_000) > 0 else { return String(decoding: all, as: UTF8.self) }
            let count = Foundation.read(descriptor, &buffer, buffer.count)
            if count > 0 { all += buffer[..<count].filter { $0 != Self.filling } }
            let lines = String(decoding: all, as: UTF8.self)
            if lines.contains(text) { return lines }
        }
    }

    func end() { close(descriptor) }
}
