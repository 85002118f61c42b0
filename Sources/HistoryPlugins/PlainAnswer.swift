/// The answers that nearly all are: an object of names and plain values, whatever its spacing and
/// order. It is read in place; anything more than that is left to the decoder.
struct PlainAnswer {
    private(set) var id: Int64?
    private(set) var outcome: PluginAnswer.Outcome?

    init?(_ line: ArraySlice<UInt8>) {
        var reader = Reader(rest: line)
        guard reader.take("{") else { return nil }
        repeat {
            guard let name = reader.word(), reader.take(":") else { return nil }
            if name.elementsEqual("id".utf8) {
                guard id == nil, let number = reader.integer() else { return nil }
                id = number
            } else if name.elementsEqual("result".utf8) {
                guard outcome == nil else { return nil }
                if let text = reader.word() {
                    outcome = .text(String(decoding: text, as: UTF8.self))
                } else if reader.takeNull() {
                    outcome = .null
                } else {
                    return nil
                }
            } else if name.elementsEqual("jsonrpc".utf8) {
                guard reader.word() != nil else { return nil }
            } else {
                return nil
            }
        } while reader.take(",")
        guard reader.take("}"), reader.isAtEnd else { return nil }
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        var isAtEnd: Bool {
            mutating get {
                skipSpace()
                return rest.isEmpty
            }
        }

        private mutating func skipSpace() {
            while let byte = rest.first, byte == 0x20 || byte == 0x09 || byte == 0x0D { rest.removeFirst() }
        }

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            skipSpace()
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        mutating func takeNull() -> Bool {
            skipSpace()
            guard rest.starts(with: "null".utf8) else { return false }
            rest.removeFirst(4)
            return true
        }

        /// A string of printable ASCII without escapes.
        mutating func word() -> ArraySlice<UInt8>? {
            skipSpace()
            guard rest.first == UInt8(ascii: "\"") else { return nil }
            let inside = rest.dropFirst()
            let end = inside.firstIndex {
                $0 < 0x20 || $0 > 0x7E || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\")
            }
            guard let end, inside[end] == UInt8(ascii: "\"") else { return nil }
            rest = inside[(end + 1)...]
            return inside[..<end]
        }

        /// A whole number of up to 18 digits.
        mutating func integer() -> Int64? {
            skipSpace()
            var number: Int64 = 0
            var count = 0
            while let byte = rest.first, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9"), count < 18 {
                number = number * 10 + Int64(byte - UInt8(ascii: "0"))
                count += 1
                rest.removeFirst()
            }
            guard count > 0, let next = rest.first,
                ![UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(next)
            else { return nil }
            return number
        }
    }
}
