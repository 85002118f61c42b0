import Testing

@testable import HistoryBase
@testable import HistoryConfiguration

/// `line:column: path: message` of each problem.
private func problems(_ bytes: [UInt8]) -> [String] {
    JSONReader.read(bytes).problems.map { problem in
        let path = problem.path.description
        return "\(problem.position): \(path.isEmpty ? "" : path + ": ")\(problem.message)"
    }
}

@Suite struct JSONReaderTests {
    @Test func readsEveryKindOfValueWithItsPlace() throws {
        let text = """
            {
              "a": null,\t"ü": [true, false],
              "numbers": [0, -0.5, 1e3, 12],
              "text": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00é😀", "after": 1
            }
            """
        let document = JSONReader.read(Array(text.utf8))
        #expect(document.problems.isEmpty)
        let root = try #require(document.root)
        #expect(
            outline(root) == [
                "1:1 object", "2:3 a", "2:8 null", "2:14 ü", "2:19 array", "2:20 true", "2:26 false",
                "3:3 numbers", "3:14 array", "3:15 0", "3:18 -0.5", "3:24 1e3", "3:29 12",
                "4:3 text", "4:11 \"\\/\u{8}\u{C}\n\r\té😀é😀", "4:51 after", "4:60 1",
            ])
    }

    @Test func tellsIntegersAsJSONSchemaDoes() {
        func integer(_ text: String) -> Int? {
            guard case .number(let number)? = JSONReader.read(Array(text.utf8)).root?.content else {
                return nil
            }
            return number.integer
        }
        #expect(integer("1") == 1)
        #expect(integer("1.0") == 1)
        #expect(integer("12e2") == 1200)
        #expect(integer("9007199254740993") == 9_007_199_254_740_993)
        #expect(integer("1.5") == nil)
        #expect(integer("99999999999999999999") == nil)
    }

    @Test(arguments: [
        ("", ["1:1: expected a value, found the end of the file"]),
        (" \n ", ["2:2: expected a value, found the end of the file"]),
        ("{", ["1:2: expected a key in double quotes, found the end of the file"]),
        ("[1", ["1:3: expected \",\" or \"]\", found the end of the file"]),
        ("[1 2]", ["1:4: expected \",\" or \"]\", found \"2\""]),
        ("[1,]", ["1:4: expected another value after the comma, found \"]\""]),
        ("{\"a\":1,}", ["1:8: expected another key after the comma, found \"}\""]),
        ("{\"a\" 1}", ["1:6: expected \":\" after the key, found \"1\""]),
        ("{a: 1}", ["1:2: expected a key in double quotes, found \"a\""]),
        ("{\"a\":\n  {\"b\": ]}}", ["2:9: a.b: expected a value, found \"]\""]),
        ("{} x", ["1:4: expected the end of the file, found \"x\""]),
        ("[1] // no", ["1:5: expected the end of the file, found \"/\" (JSON has no comments)"]),
        ("'a'", ["1:1: expected a value, found \"'\" (a string needs double quotes)"]),
        (
            "[\"é\", True]",
            ["1:7: [1]: expected a value, found \"True\"; did you mean true? (a string needs double quotes)"]
        ),
        ("yes", ["1:1: expected a value, found \"yes\" (a string needs double quotes)"]),
        ("01", ["1:1: a number must not begin with 0"]),
        ("1.", ["1:3: expected a digit, found the end of the file"]),
        ("[1e+]", ["1:5: [0]: expected a digit, found \"]\""]),
        ("-", ["1:2: expected a digit, found the end of the file"]),
        ("+1", ["1:1: expected a value, found \"+\""]),
        ("[1e999, -1e999]", ["1:2: [0]: a number out of range", "1:9: [1]: a number out of range"]),
        ("\"a", ["1:1: a string does not end; the closing quote is missing"]),
        (
            "\"a\\",
            [
                "1:3: an unknown escape; allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u0000",
                "1:1: a string does not end; the closing quote is missing",
            ]
        ),
        ("[\"a,\n1]", ["1:2: [0]: a string does not end on its line; the closing quote is missing"]),
        (
            "[\"a\tb\", \"\u{1}\"]",
            [
                "1:4: [0]: a control character in a string; write it as \\u0009",
                "1:10: [1]: a control character in a string; write it as \\u0001",
            ]
        ),
        ("\"\\x\"", ["1:2: an unknown escape; allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u0000"]),
        ("\"\\u12g4\"", ["1:2: \\u needs four hexadecimal digits"]),
        ("\"\\ud800\"", ["1:2: half of a surrogate pair, which is not a character"]),
        (
            "\"\\udc00\\ud800\\ud800\"",
            [
                "1:2: half of a surrogate pair, which is not a character",
                "1:8: half of a surrogate pair, which is not a character",
            ]
        ),
        (
            "{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2},\n\"a\": 3, \"a\": 4}",
            [
                "1:24: b: key \"c\" is given twice, first at 1:16",
                "2:1: key \"a\" is given twice, first at 1:2",
                "2:9: key \"a\" is given twice, first at 1:2",
            ]
        ),
        (
            "\u{FEFF}{} x",
            [
                "1:1: the file begins with a byte order mark; save it as UTF-8 without one",
                "1:4: expected the end of the file, found \"x\"",
            ]
        ),
        ("[\u{202E}]", ["1:2: [0]: expected a value, found \"\\u{202e}\""]),
        (
            "{\"a b\": {\"\": [x]}}",
            ["1:15: [\"a b\"][\"\"][0]: expected a value, found \"x\" (a string needs double quotes)"]
        ),
    ])
    func tellsWhatIsWrongAndWhere(text: String, expected: [String]) {
        #expect(problems(Array(text.utf8)) == expected)
    }

    @Test(
        arguments: [
            ([0xFF, 0xFE, 0x7B, 0x00], "1:1"),
            ([0x22, 0xC3, 0xA9, 0x0A, 0x61, 0xC3, 0x22], "2:2"),  // cut in a scalar
            ([0x22, 0xC0, 0xAF, 0x22], "1:2"),  // an overlong form
            ([0x22, 0xED, 0xA0, 0x80, 0x22], "1:2"),  // a surrogate
        ] as [([UInt8], String)])
    func refusesWhatIsNotUTF8(bytes: [UInt8], place: String) {
        #expect(problems(bytes) == ["\(place): not UTF-8; JSON must be UTF-8"])
    }

    @Test func boundsTheDepth() {
        func nested(_ depth: Int) -> [UInt8] {
            Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
        }
        #expect(problems(nested(128)) == [])
        let path = String(repeating: "[0]", count: 128)
        #expect(problems(nested(129)) == ["1:129: \(path): lists and objects are nested more than 128 deep"])
        #expect(problems([UInt8](repeating: 0x5B, count: 1 << 20)).count == 1)
    }

    @Test func countsPlacesInLinearTime() {
        // One line of a megabyte: where counting started over for each value, this would not end.
        let text = "[" + String(repeating: "1,", count: 500_000) + "é]"
        #expect(problems(Array(text.utf8)).first?.hasPrefix("1:1000002: ") == true)
    }
}

/// Each key and value with its place, in order.
func outline(_ value: JSONValue) -> [String] {
    switch value.content {
    case .null: ["\(value.position) null"]
    case .bool(let bool): ["\(value.position) \(bool)"]
    case .number(let number): ["\(value.position) \(number.text)"]
    case .string(let text): ["\(value.position) \(text)"]
    case .array(let values): ["\(value.position) array"] + values.flatMap(outline)
    case .object(let members):
        ["\(value.position) object"] + members.flatMap { ["\($0.keyPosition) \($0.key)"] + outline($0.value) }
    }
}
