/// A binary property list, read in place: an object is decoded when it is requested by number.
///
/// References are not followed automatically, so deep nesting and cycles do no harm. Every offset and
/// count is checked against the available bytes. (Apple's CFBinaryPList.c describes the format.)
struct BinaryPropertyList: Sendable {
    struct Failure: Error, Equatable {
        let message: String
        init(_ message: String) { self.message = message }
    }

    /// The numbers of other objects, as a range of the bytes.
    struct References: Sendable {
        let start: Int
        let count: Int
    }

    /// One object.
    enum Node: Sendable {
        case null
        case bool(Bool)
        case integer(Int64)
        case real(Double)
        case date(Double)
        case data(Range<Int>)
        case ascii(Range<Int>)
        case utf16(Range<Int>)
        /// The number of an object in a keyed archive.
        case uid(Int)
        case array(References)
        case dictionary(keys: References, values: References)
    }

    let bytes: [UInt8]
    let objectCount: Int
    let top: Int
    private let offsetSize: Int
    private let referenceSize: Int
    private let offsetTable: Int

    init(_ bytes: [UInt8]) throws(Failure) {
        self.bytes = bytes
        guard bytes.count >= 40, bytes.starts(with: "bplist0".utf8) else {
            throw Failure("it is not a binary property list")
        }
        let trailer = bytes.count - 32
        offsetSize = Int(bytes[trailer + 6])
        referenceSize = Int(bytes[trailer + 7])
        func number(_ at: Int) throws(Failure) -> Int {
            let value = bytes[at..<at + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard value <= UInt64(bytes.count) else { throw Failure("its trailer leads outside of it") }
            return Int(value)
        }
        objectCount = try number(trailer + 8)
        top = try number(trailer + 16)
        offsetTable = try number(trailer + 24)
        // The products cannot overflow: each number is at most the number of bytes, or eight.
        guard (1...8).contains(offsetSize), (1...8).contains(referenceSize), top < objectCount,
            offsetTable <= trailer, objectCount * offsetSize <= trailer - offsetTable
        else { throw Failure("its table of objects is not inside of it") }
    }

    // MARK: Objects

    func node(_ number: Int) throws(Failure) -> Node {
        guard number >= 0, number < objectCount,
            let start = integer(offsetTable + number * offsetSize, offsetSize), start < offsetTable
        else { throw Failure("an object is not inside of it") }
        let marker = bytes[start]
        let low = Int(marker & 15)
        switch marker >> 4 {
        case 0: return low == 8 ? .bool(false) : low == 9 ? .bool(true) : .null
        case 1: return .integer(try integer(after: start, power: low))
        case 2: return .real(try real(after: start, power: low))
        case 3: return .date(try real(after: start, power: 3))
        case 4: return .data(try range(start, unit: 1))
        case 5: return .ascii(try range(start, unit: 1))
        case 6: return .utf16(try range(start, unit: 2))
        case 8:
            guard let value = integer(start + 1, low + 1) else { throw Failure("an object is cut off") }
            return .uid(value)
        case 10, 12: return .array(try references(start, multiple: 1))
        case 13:
            let all = try references(start, multiple: 2)
            let keys = References(start: all.start, count: all.count / 2)
            return .dictionary(
                keys: keys,
                values: References(start: all.start + keys.count * referenceSize, count: keys.count))
        default: throw Failure("an object has no known kind")
        }
    }

    /// The number of an object in an array.
    func number(_ references: References, _ index: Int) throws(Failure) -> Int {
        guard index >= 0, index < references.count,
            let number = integer(references.start + index * referenceSize, referenceSize)
        else { throw Failure("an array has no such element") }
        return number
    }

    /// A UTF-16 code unit.
    private func unit(at place: Int) -> UInt16 { UInt16(bytes[place]) << 8 | UInt16(bytes[place + 1]) }

    /// A text; nil if the object is something else.
    func text(_ node: Node) -> String? {
        switch node {
        case .ascii(let range): String(decoding: bytes[range], as: UTF8.self)
        case .utf16(let range):
            String(
                decoding: stride(from: range.lowerBound, to: range.upperBound - 1, by: 2).map(unit),
                as: UTF16.self)
        default: nil
        }
    }

    func isText(_ node: Node, _ text: StaticString) -> Bool {
        guard case .ascii(let range) = node, range.count == text.utf8CodeUnitCount else { return false }
        return bytes[range].elementsEqual(
            UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    // MARK: Bytes

    /// A big-endian integer; nil if it is out of bounds, or does not fit.
    private func integer(_ start: Int, _ size: Int) -> Int? {
        guard start >= 0, size <= 8, start <= bytes.count - size else { return nil }
        var value: UInt64 = 0
        for index in start..<start + size { value = value << 8 | UInt64(bytes[index]) }
        return Int(exactly: value)
    }

    private func integer(after start: Int, power: Int) throws(Failure) -> Int64 {
        // Sixteen bytes hold integers beyond Int64; only their lower half is used.
        guard power <= 4 else { throw Failure("an integer has no valid size") }
        let size = 1 << power
        guard start + 1 + size <= bytes.count else { throw Failure("an object is cut off") }
        let value = bytes[start + 1..<start + 1 + size].suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return Int64(bitPattern: value)
    }

    private func real(after start: Int, power: Int) throws(Failure) -> Double {
        let bits = UInt64(bitPattern: try integer(after: start, power: power))
        switch power {
        case 2: return Double(Float(bitPattern: UInt32(truncatingIfNeeded: bits)))
        case 3: return Double(bitPattern: bits)
        default: throw Failure("a real has no valid size")
        }
    }

    /// The count after a marker, and where the content begins.
    private func count(_ start: Int) throws(Failure) -> (count: Int, start: Int) {
        let low = Int(bytes[start] & 15)
        if low < 15 { return (low, start + 1) }
        guard start + 1 < bytes.count, bytes[start + 1] >> 4 == 1, bytes[start + 1] & 15 <= 3 else {
            throw Failure("a count is not a number")
        }
        let size = 1 << Int(bytes[start + 1] & 15)
        guard let count = integer(start + 2, size), count <= bytes.count else {
            throw Failure("a count is larger than everything")
        }
        return (count, start + 2 + size)
    }

    private func range(_ start: Int, unit: Int) throws(Failure) -> Range<Int> {
        let (count, start) = try count(start)
        guard count * unit <= bytes.count - start else { throw Failure("an object is cut off") }
        return start..<start + count * unit
    }

    private func references(_ start: Int, multiple: Int) throws(Failure) -> References {
        let (count, start) = try count(start)
        guard count * multiple * referenceSize <= bytes.count - start else {
            throw Failure("an object is cut off")
        }
        return References(start: start, count: count * multiple)
    }
}
