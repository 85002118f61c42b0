import Testing
import TestSupport

@testable import HistoryBase
@testable import HistoryConfiguration

/// Writes random documents, and what is to be found in them.
private struct RandomDocument {
    private var random: Seed
    private(set) var text = ""
    private(set) var expected: [String] = []
    private var line = 1
    private var column = 1

    init(_ seed: UInt64) {
        random = Seed(seed)
        space()
        value(depth: 0)
        space()
    }

    private mutating func write(_ part: String) {
        for scalar in part.unicodeScalars {
            column += 1
            if scalar == "\n" { (line, column) = (line + 1, 1) }
        }
        text += part
    }

    private mutating func expect(_ what: String) { expected.append("\(line):\(column) \(what)") }

    private mutating func space() {
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            write([" ", "\n", "\t", "\r\n"].randomElement(using: &random) ?? "")
        }
    }

    private mutating func value(depth: Int) {
        switch Int.random(in: 0...(depth < 5 ? 6 : 4), using: &random) {
        case 0: scalar("null")
        case 1: scalar(Bool.random(using: &random) ? "true" : "false")
        case 2: scalar(["0", "-1", "12.50", "1e-9", "-0.0E+2"].randomElement(using: &random) ?? "0")
        case 3, 4: string(unique: nil)
        case 5:
            expect("array")
            list("[", "]") { $0.value(depth: depth + 1) }
        default:
            expect("object")
            var count = 0
            list("{", "}") { document in
                count += 1
                document.string(unique: count)
                document.space()
                document.write(":")
                document.space()
                document.value(depth: depth + 1)
            }
        }
    }

    private mutating func scalar(_ word: String) {
        expect(word)
        write(word)
    }

    private mutating func list(_ open: String, _ close: String, member: (inout RandomDocument) -> Void) {
        write(open)
        space()
        for index in 0..<Int.random(in: 0...4, using: &random) {
            if index > 0 {
                write(",")
                space()
            }
            member(&self)
            space()
        }
        write(close)
    }

    private mutating func string(unique: Int?) {
        let parts: [(written: String, meant: String)] = [
            ("a", "a"), ("é", "é"), ("e\u{301}", "e\u{301}"), ("😀", "😀"), (" ", " "), ("\\n", "\n"),
            ("\\\"", "\""),
            ("\\u00E9", "é"), ("\\ud83d\\uDE00", "😀"), ("\\u0000", "\0"), ("\\/", "/"), ("{", "{"), ("👨‍👩‍👧", "👨‍👩‍👧"),
        ]
        var (written, meant) = ("\"", "")
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            let part = parts.randomElement(using: &random) ?? parts[0]
            written += part.written
            meant += part.meant
        }
        if let unique { (written, meant) = ("\(written)#\(unique)", "\(meant)#\(unique)") }
        expect(meant)
        write(written + "\"")
    }
}

@Suite struct JSONReaderProperties {
    @Test(arguments: 0..<200)
    func findsEverythingWhereItWasWritten(seed: Int) throws {
        let document = RandomDocument(UInt64(seed))
        let read = JSONReader.read(Array(document.text.utf8))
        #expect(read.problems.isEmpty, "seed \(seed)")
        #expect(try outline(#require(read.root)) == document.expected, "seed \(seed)")
    }

    /// Any bytes give a value or a problem, and every problem is inside of the file.
    @Test func endsWithAValueOrAProblemWhateverTheBytes() {
        var random = Seed(UInt64.random(in: 0 ... .max))
        let comment = Comment(rawValue: random.description)
        let alphabet =
            Array("{}[]\",:\\u0123456789eE+-.truefalsn \n\t\r".utf8) + [
                0x00, 0x1F, 0x80, 0xC3, 0xA9, 0xED, 0xF0, 0xFF,
            ]
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                alphabet.randomElement(using: &random) ?? 0
            }
            check(bytes, comment)
        }
    }

    @Test func endsWithAValueOrAProblemForDamagedDocuments() {
        var random = Seed(UInt64.random(in: 0 ... .max))
        let comment = Comment(rawValue: random.description)
        for seed in 0..<400 {
            var bytes = Array(RandomDocument(UInt64(seed)).text.utf8)
            for _ in 0..<5 {
                switch Int.random(in: 0...2, using: &random) {
                case 0 where !bytes.isEmpty: bytes.remove(at: Int.random(in: 0..<bytes.count, using: &random))
                case 1 where !bytes.isEmpty:
                    bytes.removeLast(Int.random(in: 0...bytes.count, using: &random) / 4)
                default:
                    bytes.insert(
                        UInt8.random(in: 0...255, using: &random),
                        at: Int.random(in: 0...bytes.count, using: &random))
                }
                check(bytes, comment)
            }
        }
    }

    private func check(_ bytes: [UInt8], _ comment: Comment?) {
        let document = JSONReader.read(bytes)
        #expect(document.root != nil || !document.problems.isEmpty, comment)
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        for problem in document.problems {
            let position = problem.position
            #expect(1...lines.count ~= position.line, comment)
            #expect(1...(lines[position.line - 1].count + 1) ~= position.column, comment)
        }
    }
}
