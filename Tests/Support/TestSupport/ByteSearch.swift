import Glibc

/// Looks for a text in many bytes by the C library: in a debug build, strings and generic searches take seconds for what a
/// test asks of some megabytes again and again.
public enum ByteSearch {
    /// How often a text, which is not empty, is in the bytes.
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

    /// How often a text is in another one.
    public static func count(_ text: String, in whole: String) -> Int {
        var whole = whole
        return whole.withUTF8 { count(text, in: UnsafeRawBufferPointer($0)) }
    }
}
