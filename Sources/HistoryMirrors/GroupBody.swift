import PersistentHistory
internal import Glibc

/// The body of a group: lines of JSON. Only the last megabytes are in memory; the rest is in an unnamed temporary file.
package final class GroupBody {
    private static let mostInMemory = 4 << 20
    private let folder: String
    /// Bytes that are not in the file.
    private var tail: [UInt8] = []
    private var descriptor: Int32 = -1
    /// The offset at which the tail starts. Before it, the file has holes where bytes were forgotten.
    private var written = 0

    /// - Parameter folder: A folder with space for bytes that do not fit into memory.
    package init(spoolingIn folder: String) { self.folder = folder }

    deinit { if descriptor >= 0 { close(descriptor) } }

    package var count: Int { written + tail.count }

    package func append(_ bytes: some Collection<UInt8>) throws {
        tail.append(contentsOf: bytes)
        if tail.count > Self.mostInMemory { try spool() }
    }

    /// Drops the bytes before an offset, which are not read again: they need not be written to the file.
    package func forget(before offset: Int) {
        let count = min(offset - written, tail.count)
        guard count > 0 else { return }
        tail.removeFirst(count)
        written += count
    }

    private func makeFile() throws {
        var name = Array("\(folder)/.historyd-nats-XXXXXX".utf8CString)
        descriptor = mkstemp(&name)
        guard descriptor >= 0 else {
            throw SystemError(call: "make a temporary file in \"\(folder)\"", number: errno)
        }
        // No child can inherit the file, because this program starts none.
        unlink(name)
    }

    private func spool() throws {
        if descriptor < 0 { try makeFile() }
        try tail.withUnsafeBytes { bytes in
            var done = 0
            while done < bytes.count {
                let count = pwrite(
                    descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(written + done))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else {
                    throw SystemError(call: "write a temporary file in \"\(folder)\"", number: errno)
                }
                done += count
            }
        }
        written += tail.count
        tail.removeAll(keepingCapacity: true)
    }

    /// The bytes from an offset on; fewer than requested at the end.
    package func bytes(at start: Int, atMost limit: Int) throws -> [UInt8] {
        if start >= written {
            let first = min(start - written, tail.count)
            return Array(tail[first..<min(first + limit, tail.count)])
        }
        let wanted = min(limit, written - start)
        var bytes = [UInt8](repeating: 0, count: wanted)
        var done = 0
        while done < wanted {
            let count = bytes.withUnsafeMutableBytes { buffer in
                pread(descriptor, buffer.baseAddress.map { $0 + done }, wanted - done, off_t(start + done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw SystemError(call: "read a temporary file in \"\(folder)\"", number: errno)
            }
            done += count
        }
        if wanted < limit { bytes += tail.prefix(limit - wanted) }
        return bytes
    }

    /// Returns a function that gives the next chunk of the bytes with each call, and nil at the end.
    package func chunks() -> () throws -> [UInt8]? {
        var offset = 0
        return {
            guard offset < self.count else { return nil }
            let chunk = try self.bytes(at: offset, atMost: 1 << 20)
            offset += chunk.count
            return chunk
        }
    }
}

/// Splits chunks into lines.
package enum Lines {
    /// The longest line, in bytes: a row with a blob of 190 MB. A line is read as a whole.
    package static let longest = 256 << 20
    /// The longest line that starts a section.
    static let longestBeginning = 16 << 20

    /// Calls a body with each line, without its line break.
    ///
    /// - Parameters:
    ///   - next: Returns the next chunk; nil at the end.
    ///   - longest: The longest line that is accepted.
    ///   - areOver: Called before the memory of the previous lines is reused.
    /// - Throws: `MirrorError.malformed` if the last line has no line break; what the closures throw.
    static func forEach(
        of next: () throws -> [UInt8]?, longest: Int = longest,
        _ body: (UnsafeBufferPointer<UInt8>) throws -> Void,
        areOver: () throws -> Void = {}
    ) throws {
        var rest: [UInt8] = []
        while let chunk = try next() {
            rest += chunk
            guard rest.count - chunk.count <= longest else {
                throw MirrorError.malformed("a line is longer than \(longest) bytes")
            }
            let used = try rest.withUnsafeBufferPointer { buffer in
                var start = 0
                // The bytes kept from before contain no line break.
                var search = buffer.count - chunk.count
                while let end = Self.end(in: buffer, from: search) {
                    try body(UnsafeBufferPointer(rebasing: buffer[start..<end]))
                    start = end + 1
                    search = start
                }
                try areOver()
                return start
            }
            rest.removeFirst(used)
        }
        guard rest.isEmpty else { throw MirrorError.malformed("the last line is not whole") }
    }

    private static func end(in buffer: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard let base = buffer.baseAddress, start < buffer.count,
            let end = memchr(base + start, Int32(UInt8(ascii: "\n")), buffer.count - start)
        else { return nil }
        return UnsafeRawPointer(end) - UnsafeRawPointer(base)
    }
}

/// Why a group cannot be applied to a mirror.
package enum MirrorError: Error, Hashable, CustomStringConvertible {
    case malformed(String)
    /// It is valid but does not fit this mirror: a snapshot is needed.
    case needsSnapshot(String)

    package var description: String {
        switch self {
        case .malformed(let what): "The group is malformed: \(what)."
        case .needsSnapshot(let why): "The mirror needs a snapshot: \(why)."
        }
    }
}
