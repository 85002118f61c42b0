import ArgumentParser
import Glibc

/// A coprocess plugin that does nothing but read, tell when it has read, and answer.
struct PluginCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plugin", abstract: "What the benchmarks have the daemon call.", shouldDisplay: false)

    @Argument(help: "The named pipe for the stamps.")
    var stamps: String

    func run() throws {
        let stamps = open(stamps, O_WRONLY | O_CLOEXEC)
        guard stamps >= 0 else { throw BenchError.system("open the pipe for the stamps") }
        var reader = RequestReader(from: STDIN_FILENO)
        var answers: [UInt8] = []
        while let chunk = reader.next() {
            let now = Clock.now
            answers.removeAll(keepingCapacity: true)
            var object: Int64 = 0
            for request in chunk {
                answers += "{\"jsonrpc\":\"2.0\",\"id\":\(request.id),\"result\":null}\n".utf8
                object = request.object
            }
            try FileBytes.write(answers, to: STDOUT_FILENO)
            Stamp(object: object, transactions: Int64(chunk.count), time: now).send(to: stamps)
        }
    }
}

/// Reads requests as they come: all whole lines that are there.
private struct RequestReader {
    struct Request {
        let id: Int64
        let object: Int64
    }

    private let input: Int32
    private var buffer = [UInt8](repeating: 0, count: 1 << 18)
    private var count = 0

    init(from input: Int32) { self.input = input }

    /// Nil at the end.
    mutating func next() -> [Request]? {
        while true {
            let free = buffer.count - count - 1
            let got = buffer.withUnsafeMutableBytes { read(input, $0.baseAddress.map { $0 + count }, free) }
            guard got > 0 else { return nil }
            count += got
            let requests = takeLines()
            if !requests.isEmpty { return requests }
        }
    }

    private mutating func takeLines() -> [Request] {
        var requests: [Request] = []
        var start = 0
        buffer.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            while let end = memchr(base + start, 0x0A, count - start) {
                // So that the line is a C string.
                end.storeBytes(of: 0, as: UInt8.self)
                let line = UnsafeMutableRawPointer(base + start).assumingMemoryBound(to: CChar.self)
                requests.append(
                    Request(
                        id: Self.number("\"id\":", line), object: Self.number("\"objectID\":{\"id\":", line)))
                start = UnsafeRawPointer(end) - UnsafeRawPointer(base) + 1
            }
            memmove(base, base + start, count - start)
        }
        count -= start
        return requests
    }

    private static func number(_ name: StaticString, _ line: UnsafePointer<CChar>) -> Int64 {
        name.withUTF8Buffer { name in
            name.withMemoryRebound(to: CChar.self) { name in
                guard let start = name.baseAddress, let place = strstr(line, start) else { return 0 }
                return Int64(strtoll(place + name.count, nil, 10))
            }
        }
    }
}
