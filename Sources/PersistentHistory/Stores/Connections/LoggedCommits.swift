internal import CSQLiteHistory
import GRDB
internal import Glibc

/// The commits in a store's write-ahead log (https://www.sqlite.org/walformat.html).
///
/// A frame counts if SQLite would use it: its salt is that of the log's header, and its checksum, which
/// covers all frames before it, is right. What follows is of an older log, or was never completed.
struct LoggedCommits: Sendable {
    private let pageSize: Int
    /// The size of the log up to each commit; the first is that of the log without frames.
    let sizes: [Int64]
    /// Pages that the database has in a version of the log. A checkpoint has copied them, so that the
    /// version before the log is lost; in ascending order.
    private let copied: [UInt32]

    /// Each state is recovered from the start of the log, so a long log takes long. SQLite starts again
    /// from the beginning after some MiB.
    private static let longest: Int64 = 64 << 20
    private static let headerSize = 32
    private static let frameHeaderSize = 24

    /// - Returns: Nil if the store has no valid log, or one that is too long.
    init?(of path: String) throws {
        let log = open(path + "-wal", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard log >= 0 else { return nil }
        defer { close(log) }
        var status = stat()
        guard fstat(log, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.longest
        else { return nil }
        let probe = try WriterProbes.shared.take(path)
        defer { WriterProbes.shared.keep(probe) }
        guard let scan = probe.withStore({ Scan(log, store: $0) }) else { return nil }
        (pageSize, sizes, copied) = (scan.pageSize, scan.sizes, scan.copied.sorted())
    }

    /// Makes a new connection read the store as it was after a commit.
    func lookBack(_ db: Database, _ size: Int64) throws {
        let result = history_look_back(db.sqliteConnection, size, Int32(pageSize), copied, UInt(copied.count))
        guard result == 0 else { throw DatabaseError(resultCode: ResultCode(rawValue: result)) }
    }

    private struct Scan {
        let pageSize: Int
        var sizes: [Int64]
        var copied: Set<UInt32> = []

        init?(_ log: Int32, store: Int32) {
            var header = [UInt8](repeating: 0, count: headerSize)
            guard pread(log, &header, headerSize, 0) == headerSize else { return nil }
            let words = header.withUnsafeBytes { bytes in (0..<8).map { Self.word(bytes, $0) } }
            // The last bit says in which order the words of a checksum are read.
            guard words[0] & ~1 == 0x377f_0682, words[1] == 3_007_000 else { return nil }
            pageSize = Int(words[2])
            guard pageSize.nonzeroBitCount == 1, (512...65536).contains(pageSize),
                pageSize == Self.pageSize(ofStore: store)
            else { return nil }
            var checksum = Checksum(isBigEndian: words[0] & 1 == 1)
            header.withUnsafeBytes { checksum.add($0.prefix(24)) }
            guard checksum.first == words[6], checksum.second == words[7] else { return nil }
            sizes = [Int64(headerSize)]

            var frame = [UInt8](repeating: 0, count: frameHeaderSize + pageSize)
            var page = [UInt8](repeating: 0, count: pageSize)
            var start = Int64(headerSize)
            while pread(log, &frame, frame.count, Int(start)) == frame.count {
                let fields = frame.withUnsafeBytes { bytes in (0..<6).map { Self.word(bytes, $0) } }
                frame.withUnsafeBytes { bytes in
                    checksum.add(bytes.prefix(8))
                    checksum.add(bytes.dropFirst(frameHeaderSize))
                }
                guard fields[0] > 0, fields[2] == words[4], fields[3] == words[5],
                    fields[4] == checksum.first, fields[5] == checksum.second
                else { break }
                start += Int64(frame.count)
                if fields[1] > 0 { sizes.append(start) }
                let place = (Int(fields[0]) - 1) * pageSize
                if pread(store, &page, pageSize, place) == pageSize, Self.isContent(of: frame, page) {
                    copied.insert(fields[0])
                }
            }
        }

        /// The page size in the header of a database, where 1 stands for 65536.
        private static func pageSize(ofStore store: Int32) -> Int? {
            var bytes: [UInt8] = [0, 0]
            guard pread(store, &bytes, 2, 16) == 2 else { return nil }
            let size = Int(bytes[0]) << 8 | Int(bytes[1])
            return size == 1 ? 65536 : size
        }

        private static func isContent(of frame: [UInt8], _ page: [UInt8]) -> Bool {
            frame.withUnsafeBytes { bytes in
                guard let start = bytes.baseAddress else { return false }
                return memcmp(start + frameHeaderSize, page, page.count) == 0
            }
        }

        /// A number in the log, most significant byte first.
        private static func word(_ bytes: UnsafeRawBufferPointer, _ index: Int) -> UInt32 {
            UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self))
        }
    }

    private struct Checksum {
        let isBigEndian: Bool
        var first: UInt32 = 0
        var second: UInt32 = 0

        init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

        mutating func add(_ bytes: Slice<UnsafeRawBufferPointer>) {
            let bytes = UnsafeRawBufferPointer(rebasing: bytes)
            for offset in stride(from: 0, to: bytes.count, by: 8) {
                first &+= word(bytes, offset) &+ second
                second &+= word(bytes, offset + 4) &+ first
            }
        }

        private func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
            let stored = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
            return isBigEndian ? UInt32(bigEndian: stored) : UInt32(littleEndian: stored)
        }
    }
}
