/// A value of a property list, including the references of a keyed archive.
public indirect enum PropertyListValue: Sendable {
    case bool(Bool)
    case integer(Int)
    case real(Double)
    case text(String)
    case data([UInt8])
    case reference(Int)
    case array([PropertyListValue])
    case dictionary([(String, PropertyListValue)])
}

/// Writes binary property lists.
public struct PropertyListWriter {
    private var objects: [[UInt8]] = []
    private var references: [(object: Int, numbers: [Int])] = []
    private var texts: [String: Int] = [:]

    public static func bytes(_ value: PropertyListValue) -> [UInt8] {
        var writer = PropertyListWriter()
        let top = writer.add(value)
        return writer.bytes(top: top)
    }

    private mutating func add(_ value: PropertyListValue) -> Int {
        switch value {
        case .bool(let bool): return append([bool ? 9 : 8])
        case .integer(let integer): return append(Self.integer(integer))
        case .real(let real): return append([0x23] + Self.bigEndian(real.bitPattern, 8))
        case .reference(let number): return append([0x81] + Self.bigEndian(UInt64(number), 2))
        case .data(let bytes): return append(Self.marker(4, bytes.count) + bytes)
        case .text(let text):
            if let known = texts[text] { return known }
            let isASCII = text.utf8.allSatisfy { $0 < 128 }
            let number =
                isASCII
                ? append(Self.marker(5, text.utf8.count) + Array(text.utf8))
                : append(
                    Self.marker(6, text.utf16.count) + text.utf16.flatMap { Self.bigEndian(UInt64($0), 2) })
            texts[text] = number
            return number
        case .array(let elements):
            let number = append(Self.marker(10, elements.count))
            let numbers = elements.map { add($0) }
            references.append((number, numbers))
            return number
        case .dictionary(let members):
            let number = append(Self.marker(13, members.count))
            let keys = members.map { add(.text($0.0)) }
            let values = members.map { add($0.1) }
            references.append((number, keys + values))
            return number
        }
    }

    private mutating func append(_ bytes: [UInt8]) -> Int {
        objects.append(bytes)
        return objects.count - 1
    }

    private func bytes(top: Int) -> [UInt8] {
        var objects = objects
        let size = objects.count < 256 ? 1 : objects.count < 65536 ? 2 : 4
        for (object, numbers) in references {
            objects[object] += numbers.flatMap { Self.bigEndian(UInt64($0), size) }
        }
        var bytes = Array("bplist00".utf8)
        var offsets: [Int] = []
        for object in objects {
            offsets.append(bytes.count)
            bytes += object
        }
        let table = bytes.count
        let offsetSize = table < 65536 ? 2 : 4
        for offset in offsets { bytes += Self.bigEndian(UInt64(offset), offsetSize) }
        bytes += [0, 0, 0, 0, 0, 0, UInt8(offsetSize), UInt8(size)]
        for number in [objects.count, top, table] { bytes += Self.bigEndian(UInt64(number), 8) }
        return bytes
    }

    private static func marker(_ kind: UInt8, _ count: Int) -> [UInt8] {
        count < 15 ? [kind << 4 | UInt8(count)] : [kind << 4 | 15] + integer(count)
    }

    private static func integer(_ value: Int) -> [UInt8] {
        switch value {
        case 0..<256: [0x10, UInt8(value)]
        case 256..<65536: [0x11] + bigEndian(UInt64(value), 2)
        default: [0x13] + bigEndian(UInt64(bitPattern: Int64(value)), 8)
        }
    }

    private static func bigEndian(_ value: UInt64, _ size: Int) -> [UInt8] {
        (0..<size).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * UInt64($0))) }
    }
}
