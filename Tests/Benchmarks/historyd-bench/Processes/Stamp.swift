import Glibc

/// What an observer of any kind reports about what it has just received (see `stamp.h`).
struct Stamp {
    /// The key of the last row.
    var object: Int64
    /// How many transactions there were.
    var transactions: Int64
    /// The time, by `Clock`.
    var time: Int64
}

/// Where stamps arrive: a pipe of this program, or a named pipe.
final class StampReader {
    /// Far more than anything takes here: an observer that is silent for so long is stuck.
    static let timeout: Int32 = 120_000

    private let descriptor: Int32
    private var buffer = [UInt8](repeating: 0, count: 65_536)
    private var start = 0
    private var end = 0

    /// Takes ownership of the descriptor.
    init(_ descriptor: Int32) { self.descriptor = descriptor }

    /// Makes a named pipe.
    convenience init(named path: String) throws(BenchError) {
        guard mkfifo(path, 0o600) == 0 else { throw .system("make a named pipe") }
        // Also for writing: so that it has no end when a writer goes.
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system("open a named pipe") }
        self.init(descriptor)
    }

    deinit { close(descriptor) }

    /// Whether one comes within that time.
    func wait(milliseconds: Int32) -> Bool {
        if end - start >= MemoryLayout<Stamp>.size { return true }
        var source = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&source, 1, milliseconds) > 0
    }

    /// Takes all that have arrived.
    ///
    /// - Returns: the last one.
    @discardableResult
    func discard() throws(BenchError) -> Stamp? {
        var last: Stamp?
        while wait(milliseconds: 0) { last = try next() }
        return last
    }

    func next() throws(BenchError) -> Stamp {
        let size = MemoryLayout<Stamp>.size
        while end - start < size { try fill() }
        let stamp = buffer.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: start, as: Stamp.self) }
        start += size
        return stamp
    }

    private func fill() throws(BenchError) {
        buffer.withUnsafeMutableBytes { bytes in
            bytes.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
        }
        end -= start
        start = 0
        var source = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&source, 1, Self.timeout) > 0 else { throw BenchError("An observer is silent.") }
        let free = buffer.count - end
        let count = buffer.withUnsafeMutableBytes { read(descriptor, $0.baseAddress.map { $0 + end }, free) }
        guard count > 0 else {
            throw count == 0 ? BenchError("An observer has ended.") : .system("read stamps")
        }
        end += count
    }
}
