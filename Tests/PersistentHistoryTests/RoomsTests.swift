import Foundation
import Testing

/// The library's folders know each other in one direction, as the table of the page Internals says.
///
/// The sources are read as text. What is found: the names of types, and members that a room gives to the types of another
/// one. What is not: operators, subscripts, and members whose names several rooms have.
@Suite struct RoomsTests {
    private static let sources = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources")

    @Test func noFileKnowsARoomThatItMayNot() throws {
        let rooms = try Rooms(page: Self.text("PersistentHistory/PersistentHistory.docc/Internals.md"))
        #expect(rooms.mayKnow.count == 8)
        let files = try Self.files()
        #expect(Set(files.map(\.room)) == Set(rooms.mayKnow.keys), "each folder is a row of the table")
        let references = References(files)
        #expect(references.names.count > 400)
        let found = files.flatMap { references.forbidden(in: $0, rooms) }
        #expect(found.isEmpty, "\(found.joined(separator: "\n"))")
    }

    @Test func aReferenceThatIsForbiddenIsFound() {
        let rooms = Rooms(mayKnow: ["Low": [], "High": ["Low"]])
        let high = SourceFile(
            path: "High/Consumer.swift", room: "High",
            text: "struct Consumer {\n  func wakeUp() {}\n}\nextension Low {\n  var rank: Int { 1 }\n}")
        let low = SourceFile(
            path: "Low/Low.swift", room: "Low",
            text: """
                struct Low {} // not Consumer
                /* nor Consumer */ let text = "Consumer \\(Consumer.self)"
                func use(_ low: Low) { low.rank + low.wakeUp() }
                """)
        let references = References([high, low])
        #expect(
            references.forbidden(in: low, rooms) == [
                "Low/Low.swift:2: Consumer is declared in High",
                "Low/Low.swift:3: rank is declared in High",
            ])
        #expect(references.forbidden(in: high, rooms).isEmpty)
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: sources.appending(path: path), encoding: .utf8)
    }

    /// The module below the rooms is one more: what they give to its types is theirs.
    private static func files() throws -> [SourceFile] {
        try ["HistoryBase", "PersistentHistory"].flatMap { module in
            let folder = sources.appending(path: module)
            let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            return try paths.filter { $0.hasSuffix(".swift") }.sorted().map { path in
                let path = "\(module)/\(path)"
                let folders = path.split(separator: "/").map(String.init)
                return SourceFile(
                    path: path, room: module == Rooms.below ? module : folders[1], text: try text(path))
            }
        }
    }
}

/// Which room may know which.
private struct Rooms {
    static let below = "HistoryBase"
    let mayKnow: [String: Set<String>]

    init(mayKnow: [String: Set<String>]) { self.mayKnow = mayKnow }

    /// The rows "room, what is in it, what it may know" of the page.
    init(page: String) throws {
        let table = try #require(page.firstMatch(of: /\| room \|.*\n\|.*\n((\|.*\n)+)/)?.1)
        var mayKnow: [String: Set<String>] = [Self.below: []]
        for row in table.split(separator: "\n") {
            let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            let name = cells[0].trimmingCharacters(in: ["`"])
            mayKnow[name] = Set(cells[2].matches(of: /`(\w+)`/).map { String($0.1) }).union([Self.below])
        }
        self.mayKnow = mayKnow
    }
}

private struct SourceFile {
    let path: String
    let room: String
    let words: [SwiftWord]

    init(path: String, room: String, text: String) {
        (self.path, self.room) = (path, room)
        words = SwiftWord.all(in: text)
    }
}

/// Which rooms declare which names: types, and what they give to types of other rooms in extensions.
private struct References {
    private(set) var names: [Substring: Set<String>] = [:]
    private static let types: Set<Substring> = ["struct", "class", "enum", "actor", "protocol", "typealias"]
    private static let members: Set<Substring> = ["func", "var", "let", "case"]

    init(_ files: [SourceFile]) {
        var types: [Substring: Set<String>] = [:]
        var extensions: [(type: Substring, member: Substring, room: String)] = []
        for file in files {
            Self.scan(file) {
                types[$0, default: []].insert(file.room)
            } member: {
                extensions.append(($0, $1, file.room))
            }
        }
        names = types
        for (type, member, room) in extensions where !(types[type]?.contains(room) ?? false) {
            names[member, default: []].insert(room)
        }
        // A member that has another's name is not told apart: those of types are declared where the types are.
        for file in files {
            for (index, word) in file.words.enumerated() where Self.members.contains(word.text) {
                guard index + 1 < file.words.count else { continue }
                names[file.words[index + 1].text]?.insert(file.room)
            }
        }
    }

    /// - Parameters:
    ///   - type: Is given the type at the top of a file.
    ///   - member: Is given the type that is extended, and a member that other files see.
    private static func scan(
        _ file: SourceFile, type: (Substring) -> Void, member: (Substring, Substring) -> Void
    ) {
        var depth = 0
        var extended: Substring?
        var isPrivate = false
        for (word, next) in zip(file.words, file.words.dropFirst()) {
            switch word.text {
            case "{": depth += 1
            case "}":
                depth -= 1
                if depth == 0 { extended = nil }
            case "private", "fileprivate": isPrivate = true
            case "extension" where depth == 0:
                extended = next.text
                isPrivate = false
            case let kind where types.contains(kind):
                if depth == 0, !isPrivate { type(next.text) }
                isPrivate = false
            case let kind where members.contains(kind):
                if depth == 1, let extended, !isPrivate { member(extended, next.text) }
                isPrivate = false
            default: break
            }
        }
    }

    /// Names of the file that only rooms declare which its own may not know.
    func forbidden(in file: SourceFile, _ rooms: Rooms) -> [String] {
        let known = (rooms.mayKnow[file.room] ?? []).union([file.room])
        var found: [String] = []
        for (index, word) in file.words.enumerated() {
            guard let declared = names[word.text], declared.isDisjoint(with: known) else { continue }
            let isType = word.text.first?.isUppercase ?? false
            guard isType || index > 0 && file.words[index - 1].text == "." else { continue }
            let rooms = declared.sorted().joined(separator: ", ")
            found.append("\(file.path):\(word.line): \(word.text) is declared in \(rooms)")
        }
        return found
    }
}

/// A word or a sign of Swift source; none of comments, and of a string only what is interpolated.
private struct SwiftWord {
    let text: Substring
    let line: Int

    static func all(in source: String) -> [SwiftWord] {
        var scanner = Scanner(source)
        scanner.scan(untilParenthesis: false)
        return scanner.words
    }

    private struct Scanner {
        var words: [SwiftWord] = []
        private let source: Substring.UTF8View
        private var at: Substring.UTF8View.Index
        private var line = 1

        init(_ text: String) {
            source = text[...].utf8
            at = source.startIndex
        }

        private func starts(with text: StaticString) -> Bool {
            text.withUTF8Buffer { source[at...].starts(with: $0) }
        }

        private mutating func advance(_ count: Int = 1) {
            for _ in 0..<count where at < source.endIndex {
                if source[at] == UInt8(ascii: "\n") { line += 1 }
                at = source.index(after: at)
            }
        }

        private static func isOfName(_ byte: UInt8) -> Bool {
            byte >= 0x80 || byte == UInt8(ascii: "_") || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
                || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
        }

        mutating func scan(untilParenthesis: Bool) {
            var open = 0
            while at < source.endIndex {
                if starts(with: "//") {
                    while at < source.endIndex, source[at] != UInt8(ascii: "\n") { advance() }
                } else if starts(with: "/*") {
                    while at < source.endIndex, !starts(with: "*/") { advance() }
                    advance(2)
                } else if starts(with: "\"\"\"") {
                    string(end: "\"\"\"")
                } else if starts(with: "#\"") {
                    advance()
                    string(end: "\"#", isRaw: true)
                } else if starts(with: "\"") {
                    string(end: "\"")
                } else if Self.isOfName(source[at]) {
                    let start = at
                    while at < source.endIndex, Self.isOfName(source[at]) { at = source.index(after: at) }
                    words.append(SwiftWord(text: Substring(source[start..<at]), line: line))
                } else {
                    let byte = source[at]
                    if byte == UInt8(ascii: "(") { open += 1 }
                    if byte == UInt8(ascii: ")") {
                        open -= 1
                        if untilParenthesis, open < 0 { return advance() }
                    }
                    let next = source.index(after: at)
                    if byte > 0x20 { words.append(SwiftWord(text: Substring(source[at..<next]), line: line)) }
                    advance()
                }
            }
        }

        private mutating func string(end: StaticString, isRaw: Bool = false) {
            advance(isRaw ? 1 : end.utf8CodeUnitCount)
            while at < source.endIndex, !starts(with: end) {
                if !isRaw, starts(with: "\\(") {
                    advance(2)
                    scan(untilParenthesis: true)
                } else {
                    advance(!isRaw && starts(with: "\\") ? 2 : 1)
                }
            }
            advance(end.utf8CodeUnitCount)
        }
    }
}
