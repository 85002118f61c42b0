internal import Glibc

/// The header of a wal-index. Each commit changes it, and while it is the same, nothing was committed.
///
/// A commit leaves several events, of which the last ones often come after the look that has found it. A
/// connection that finds this header unchanged takes its own pages as current; comparing it takes a tenth
/// of a look.
///
/// Source: https://www.sqlite.org/walformat.html, section 2.1. The header is there twice, so that a reader
/// notices a writer that is just writing it.
struct WALPublication: Equatable, Sendable {
    private let words: InlineArray<6, UInt64>

    /// - Parameter shm: A descriptor of the `-shm`.
    init?(reading shm: Int32) {
        var copies = InlineArray<12, UInt64>(repeating: 0)
        let isWhole = withUnsafeMutableBytes(of: &copies) {
            pread(shm, $0.baseAddress, $0.count, 0) == $0.count
        }
        guard isWhole else { return nil }
        var words = InlineArray<6, UInt64>(repeating: 0)
        for index in words.indices {
            guard copies[index] == copies[index + 6] else { return nil }
            words[index] = copies[index]
        }
        self.words = words
    }

    static func == (left: WALPublication, right: WALPublication) -> Bool {
        left.words.indices.allSatisfy { left.words[$0] == right.words[$0] }
    }
}

/// Whether a store was committed to since it was looked at.
///
/// A `-shm` that some program left beside a store without a write-ahead log says nothing: it counts only
/// once it was seen to change.
struct SeenPublication: Sendable {
    private var last: WALPublication?
    private var isAlive = false

    /// Looks, unless the last look has seen what is published.
    ///
    /// - Returns: Nil if it has: a look would find nothing.
    mutating func look<T>(_ publication: () -> WALPublication?, _ look: () throws -> T) rethrows -> T? {
        // Before the look, which then sees at least that.
        let published = publication()
        if isAlive, published == last { return nil }
        let found = try look()
        isAlive = published != nil && (isAlive || last != nil && published != last)
        last = published
        return found
    }
}
