import PersistentHistory

/// What decoders do not take for what it is:
///
/// - reals such as `3.0`, which they take for integers too, and infinities, `9e999` and `-9e999`, which they refuse;
/// - members of an object whose names have the same canonical form: they keep one of them.
enum ExactLine {
    /// A line in which numbers are `{"real":3.0}`, and `{"infinite":1}` or `{"infinite":-1}`, and each byte of a
    /// member's name is a character. Other strings stay as they are.
    static func marked(in line: ArraySlice<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(line.count)
        var index = line.startIndex
        while index < line.endIndex {
            let byte = line[index]
            let end: Int
            if byte == UInt8(ascii: "\"") {
                end = endOfString(line, index)
                if isKey(line, end) {
                    for byte in line[index..<end] {
                        result += byte < 0x80 ? [byte] : [0xc0 | byte >> 6, 0x80 | byte & 0x3f]
                    }
                } else {
                    result += line[index..<end]
                }
            } else if byte == UInt8(ascii: "-") || isDigit(byte) {
                end = line[index...].firstIndex { !isOfNumber($0) } ?? line.endIndex
                result += marked(number: line[index..<end])
            } else {
                end = index + 1
                result.append(byte)
            }
            index = end
        }
        return result
    }

    /// The name of a member, as it was before.
    static func name(ofKey key: String) -> BinaryText {
        BinaryText(
            String(decoding: key.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }, as: UTF8.self))
    }

    /// Whether the string that ends here is a member's name.
    private static func isKey(_ line: ArraySlice<UInt8>, _ end: Int) -> Bool {
        line[end...].first { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\t") } == UInt8(ascii: ":")
    }

    private static func marked(number: ArraySlice<UInt8>) -> [UInt8] {
        if number.elementsEqual("9e999".utf8) { return Array("{\"infinite\":1}".utf8) }
        if number.elementsEqual("-9e999".utf8) { return Array("{\"infinite\":-1}".utf8) }
        let isReal = number.contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }
        return isReal ? Array("{\"real\":".utf8) + number + [UInt8(ascii: "}")] : Array(number)
    }

    /// The index behind a string.
    private static func endOfString(_ line: ArraySlice<UInt8>, _ start: Int) -> Int {
        var index = start + 1
        while index < line.endIndex, line[index] != UInt8(ascii: "\"") {
            // What is escaped ends no string.
            index += line[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index + 1, line.endIndex)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }

    private static func isOfNumber(_ byte: UInt8) -> Bool {
        isDigit(byte) || "+-.eE".utf8.contains(byte)
    }
}
