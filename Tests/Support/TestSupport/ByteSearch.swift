import Glibc

/// Searches bytes for text with the C library: in a debug build, strings and generic searches take seconds for
/// megabytes that a test searches repeatedly.
public enum ByteSearch {
    /// How often a text, which must not be empty, occurs in the bytes.
    public static func count(_ text: String, in bytes: UnsafeRawBufferPointer) -> Int {
        let text = Array(text.utf8)
        guard var place = bytes.baseAddress, let first = text.first else { return 0 }
        let end = place + bytes.count
        var count = 0
        while let match = memchr(place, Int32(first), end - place) {
            let found = UnsafeRawPointer(match)
            guard end - found >= text.count else { break }
            let isText = memcmp(found, text, text.count) == 0
            if isText { count += 1 }
            place = found + (isText ? text.count : 1)
        }
        return count
    }

    /// How often a text occurs in another one.
    public static func count(_ text: String, in whole: String) -> Int {
        var whole = whole
        return whole.withUTF8 { count(text, in: UnsafeRawBufferPointer($0)) }
    }
}
