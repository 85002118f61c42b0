/// Writes raw DEFLATE data (RFC 1951): as stored blocks, or in the fixed code with copies of what came before.
public enum Deflate {
    public static func stored(_ bytes: [UInt8]) -> [UInt8] {
        var output: [UInt8] = []
        var start = 0
        repeat {
            let length = min(0xffff, bytes.count - start)
            let isLast = start + length == bytes.count
            output += [isLast ? 1 : 0, UInt8(length & 0xff), UInt8(length >> 8)]
            output += [UInt8(~length & 0xff), UInt8(~length >> 8 & 0xff)]
            output += bytes[start..<start + length]
            start += length
        } while start < bytes.count
        return output
    }

    public static func fixed(_ bytes: [UInt8]) -> [UInt8] {
        var writer = BitWriter()
        writer.write(1, 1)
        writer.write(1, 2)
        var places: [[UInt8]: Int] = [:]
        var index = 0
        while index < bytes.count {
            let three = Array(bytes[index..<min(index + 3, bytes.count)])
            let distance = places[three].map { index - $0 } ?? .max
            if three.count == 3 { places[three] = index }
            // A copy of three bytes from up to four back, or of what repeats: enough to be tried.
            if three.count == 3, distance <= 4 {
                writer.writeSymbol(257)
                writer.writeReversed(distance - 1, 5)
                index += 3
            } else {
                writer.writeSymbol(Int(bytes[index]))
                index += 1
            }
        }
        writer.writeSymbol(256)
        return writer.bytes
    }

    /// Data that expands to a thousand times its size, and goes on for `blocks` times 64 KiB.
    public static func bomb(blocks: Int) -> [UInt8] {
        var writer = BitWriter()
        for block in 0..<blocks {
            writer.write(block == blocks - 1 ? 1 : 0, 1)
            writer.write(1, 2)
            writer.writeSymbol(0)
            for _ in 0..<254 {
                writer.writeSymbol(285)
                writer.writeReversed(0, 5)
            }
            writer.writeSymbol(256)
        }
        return writer.bytes
    }
}

private struct BitWriter {
    private(set) var bytes: [UInt8] = []
    private var used = 8

    mutating func write(_ value: Int, _ count: Int) {
        for bit in 0..<count { append(value >> bit & 1) }
    }

    /// Codes begin with their most significant bit.
    mutating func writeReversed(_ value: Int, _ count: Int) {
        for bit in (0..<count).reversed() { append(value >> bit & 1) }
    }

    /// RFC 1951, section 3.2.6.
    mutating func writeSymbol(_ symbol: Int) {
        switch symbol {
        case 0..<144: writeReversed(0x30 + symbol, 8)
        case 144..<256: writeReversed(0x190 + symbol - 144, 9)
        case 256..<280: writeReversed(symbol - 256, 7)
        default: writeReversed(0xc0 + symbol - 280, 8)
        }
    }

    private mutating func append(_ bit: Int) {
        if used == 8 {
            bytes.append(0)
            used = 0
        }
        bytes[bytes.count - 1] |= UInt8(bit << used)
        used += 1
    }
}
