/// Bytes as hexadecimal digits.
@usableFromInline package enum Hexadecimal {
    package static func digit(_ value: UInt8, upperCase: Bool = false) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: upperCase ? "A" : "a") + value - 10
    }

    static func append(_ byte: UInt8, upperCase: Bool = false, to text: inout ByteBuffer) {
        text.append(digit(byte >> 4, upperCase: upperCase))
        text.append(digit(byte & 15, upperCase: upperCase))
    }

    /// - Parameter bytes: The sixteen bytes of a UUID, which is written in upper case.
    static func append(uuid bytes: some Collection<UInt8>, to text: inout ByteBuffer) {
        for (index, byte) in bytes.enumerated() {
            if index == 4 || index == 6 || index == 8 || index == 10 { text.append(UInt8(ascii: "-")) }
            append(byte, upperCase: true, to: &text)
        }
    }

    /// The bytes of digits in either case; nil if the text is something else.
    @inlinable package static func bytes(_ digits: some Collection<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        var high: UInt8?
        for digit in digits {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "A")...UInt8(ascii: "F"): value = digit - UInt8(ascii: "A") + 10
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            default: return nil
            }
            if let first = high { bytes.append(first << 4 | value) }
            high = high == nil ? value : nil
        }
        return high == nil ? bytes : nil
    }
}
