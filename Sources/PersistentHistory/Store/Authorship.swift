internal import Glibc

/// Who made a transaction: what the writer declared, and how that is written.
///
/// A writer's transactions mostly follow each other, and share it.
final class Authorship: Sendable, Equatable {
    let author: String?
    let context: String?
    /// `"author":"Importer","context":null`
    let json: [UInt8]
    /// `"author":"Importer"`
    let authorJSON: [UInt8]
    /// As the extension writes it: `author [TAB context]`. Empty where it was not read.
    private let text: [UInt8]

    /// Of a writer that declared no author.
    static let undeclared = Authorship(nil, nil)

    init(_ author: String?, _ context: String?, text: [UInt8] = []) {
        self.author = author
        self.context = context
        self.text = text
        var json = JSONBytes()
        json.name("author")
        json.string(author)
        authorJSON = json.bytes.array
        json.name("context")
        json.string(context)
        self.json = json.bytes.array
    }

    func isWritten(_ other: UnsafeBufferPointer<UInt8>) -> Bool {
        guard text.count == other.count, let start = other.baseAddress else { return false }
        return memcmp(text, start, text.count) == 0
    }

    static func == (a: Authorship, b: Authorship) -> Bool {
        a === b || a.author == b.author && a.context == b.context
    }
}
