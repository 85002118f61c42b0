import CSimulation
import HistoryControl
import PersistentHistory

/// A request to the control socket, on one of the world's threads.
struct Request {
    let command: ControlCommand
    let path: String
    var content = ""
    /// Whether another user than the daemon's sends it.
    var isForeign = false

    struct Answer {
        let status: Int
        let body: [UInt8]

        func read<T: Decodable>(_ type: T.Type) -> T? {
            status < 300 ? try? ControlJSON.read(type, from: body) : nil
        }
    }

    /// - Parameters:
    ///   - end: When it is given up.
    ///   - take: Gets the body piece by piece, and says whether to go on.
    /// - Returns: Nil if there is no daemon, or no whole answer.
    func perform(until end: Int64 = .max, take: ([UInt8]) -> Bool = { _ in true }) -> Answer? {
        let descriptor = csimulation_connect(path, isForeign)
        guard descriptor >= 0 else { return nil }
        defer { csimulation_close(descriptor) }
        var bytes = Array(
            "\(command.method.rawValue) \(command.target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: \(content.utf8.count)\r\n\r\n\(content)"
                .utf8)
        guard csimulation_write_all(descriptor, &bytes, bytes.count) else { return nil }
        var parser = AnswerParser()
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while !parser.isWhole {
            guard csimulation_await_input(descriptor, end == .max ? -1 : max(0, end - csimulation_now())) else {
                return nil
            }
            let count = csimulation_read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return nil }
            guard take(parser.take(buffer.prefix(count))) else { return nil }
        }
        return Answer(status: parser.status, body: parser.body)
    }
}

/// An HTTP answer with a length, or in chunks.
private struct AnswerParser {
    private(set) var status = 0
    private(set) var body: [UInt8] = []
    private(set) var isWhole = false
    private var unread: [UInt8] = []
    /// Of the body, or of the chunk that is read.
    private var left: Int?
    private var isChunked = false
    private var hasHead = false

    /// - Returns: The bytes of the body among these.
    mutating func take(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        unread += bytes
        if !hasHead, !takeHead() { return [] }
        var new: [UInt8] = []
        while !isWhole {
            if let count = left {
                let piece = unread.prefix(count)
                new += piece
                unread.removeFirst(piece.count)
                left = count - piece.count
                if left != 0 { break }
                if !isChunked { isWhole = true }
                left = nil
            } else if isChunked {
                guard let line = takeLine() else { break }
                guard !line.isEmpty else { continue }
                left = Int(line, radix: 16)
                if left == 0 { isWhole = true }
            } else {
                isWhole = true
            }
        }
        body += new
        return new
    }

    private mutating func takeLine() -> String? {
        guard let end = unread.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let line = String(decoding: unread[..<end], as: UTF8.self).filter { $0 != "\r" }
        unread.removeSubrange(...end)
        return line
    }

    private mutating func takeHead() -> Bool {
        let text = String(decoding: unread, as: UTF8.self)
        guard text.contains("\r\n\r\n") else { return false }
        while let line = takeLine()?.lowercased(), !line.isEmpty {
            if line.hasPrefix("http/") { status = Int(line.split(separator: " ")[1]) ?? 0 }
            if line.hasPrefix("content-length:") { left = Int(line.dropFirst(15).filter(\.isNumber)) }
            if line.hasPrefix("transfer-encoding:") { isChunked = true }
        }
        hasHead = true
        return true
    }
}
