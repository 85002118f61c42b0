import Glibc

/// The answers that nearly all are: an object of names and plain values, whatever its spacing and
/// order. It is read in place; anything more than that is left to the decoder.
struct PlainAnswer {
    private(set) var id: Int64?
    private(set) var outcome: PluginAnswer.Outcome?

    init?(_ line: ArraySlice<UInt8>) {
        if let id = Self.success(line) {
            self.id = id
            outcome = .null
            return
        }
        let answer = line.withUnsafeBufferPointer { PlainAnswer(Reader(bytes: $0)) }
        guard let answer else { return nil }
        self = answer
    }

    /// The id, where the answer is as most programs write that all is well.
    static func success(_ line: ArraySlice<UInt8>) -> Int64? {
        let (head, tail): (StaticString, StaticString) = (#"{"jsonrpc":"2.0","id":"#, #","result":null}"#)
        let (start, end) = (head.utf8CodeUnitCount, line.count - tail.utf8CodeUnitCount)
        guard start < end, end - start <= 18 else { return nil }
        return line.withUnsafeBufferPointer { bytes in
            guard let base = bytes.baseAddress, memcmp(base, head.utf8Start, start) == 0,
                memcmp(base + end, tail.utf8Start, tail.utf8CodeUnitCount) == 0
            else { return nil }
            var id: Int64 = 0
            for index in start..<end {
                let digit = bytes[index] &- UInt8(ascii: "0")
                guard digit < 10 else { return nil }
                id = id &* 10 &+ Int64(digit)
            }
            return id
        }
    }

    private init?(_ reader: Reader) {
        var reader = reader
        guard reader.take("{") else { return nil }
        repeat {
            guard let name = reader.word(), reader.take(":") else { return nil }
            if reader.is(name, "id") {
                guard id == nil, let number = reader.integer() else { return nil }
                id = number
            } else if reader.is(name, "result") {
                guard outcome == nil else { return nil }
                if let text = reader.word() {
                    outcome = .text(reader.text(text))
                } else if reader.take(word: "null") {
                    outcome = .null
                } else if reader.take(word: "true") || reader.take(word: "false") || reader.takeEmptyObject() {
                    outcome = .other
                } else {
                    return nil
                }
            } else if reader.is(name, "jsonrpc") {
                guard reader.word() != nil else { return nil }
            } else {
                return nil
            }
        } while reader.take(",")
        guard reader.take("}"), reader.isAtEnd else { return nil }
    }

    private struct Reader {
        let bytes: UnsafeBufferPointer<UInt8>
        var index = 0

        private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

        var isAtEnd: Bool {
            mutating get {
                skipSpace()
                return next == nil
            }
        }

        private mutating func skipSpace() {
            while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0D { index += 1 }
        }

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            skipSpace()
            guard next == UInt8(ascii: character) else { return false }
            index += 1
            return true
        }

        mutating func take(word text: StaticString) -> Bool {
            skipSpace()
            let end = index + text.utf8CodeUnitCount
            guard end <= bytes.count, self.is(index..<end, text) else { return false }
            index = end
            return true
        }

        mutating func takeEmptyObject() -> Bool {
            let start = index
            if take("{"), take("}") { return true }
            index = start
            return false
        }

        func `is`(_ word: Range<Int>, _ text: StaticString) -> Bool {
            guard word.count == text.utf8CodeUnitCount, let start = bytes.baseAddress else { return false }
            return memcmp(start + word.lowerBound, text.utf8Start, word.count) == 0
        }

        func text(_ word: Range<Int>) -> String {
            String(decoding: UnsafeBufferPointer(rebasing: bytes[word]), as: UTF8.self)
        }

        /// A string of printable ASCII without escapes.
        mutating func word() -> Range<Int>? {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { return nil }
            let start = index + 1
            var end = start
            while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
                let byte = bytes[end]
                if byte < 0x20 || byte > 0x7E || byte == UInt8(ascii: "\\") { return nil }
                end += 1
            }
            guard end < bytes.count else { return nil }
            index = end + 1
            return start..<end
        }

        /// A whole number of up to 18 digits.
        mutating func integer() -> Int64? {
            skipSpace()
            var number: Int64 = 0
            var count = 0
            while let byte = next, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9"), count < 18 {
                number = number * 10 + Int64(byte - UInt8(ascii: "0"))
                count += 1
                index += 1
            }
            guard count > 0, let next,
                ![UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(next)
            else { return nil }
            return number
        }
    }
}
