/// Writes raw DEFLATE data (RFC 1951): as stored blocks, or in the fixed code with back-references.
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
        var places: [Int: Int] = [:]
        var index = 0
        while index < bytes.count {
            var distance = Int.max
            if index + 3 <= bytes.count {
                let three = Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
                distance = places.updateValue(index, forKey: three).map { index - $0 } ?? .max
            }
            // A copy of three bytes from at most four bytes back, or of a repetition: enough for a test.
            if distance <= 4 {
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

    /// Data that expand to a thousand times their size, `blocks` times 64 KiB.
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

/// Writes whole codes at a time: the tests write millions of them, without the optimizer.
private struct BitWriter {
    private var whole: [UInt8] = []
    private var (pending, pendingCount) = (0, 0)

    var bytes: [UInt8] { pendingCount == 0 ? whole : whole + [UInt8(pending)] }

    mutating func write(_ value: Int, _ count: Int) {
        pending |= value << pendingCount
        pendingCount += count
        while pendingCount >= 8 {
            whole.append(UInt8(truncatingIfNeeded: pending))
            pending >>= 8
            pendingCount -= 8
        }
    }

    /// Codes start with their most significant bit.
    mutating func writeReversed(_ value: Int, _ count: Int) { write(Self.reversed(value, count), count) }

    mutating func writeSymbol(_ symbol: Int) {
        let code = Self.codes[symbol]
        write(code.bits, code.count)
    }

    private static func reversed(_ value: Int, _ count: Int) -> Int {
        (0..<count).reduce(0) { $0 << 1 | value >> $1 & 1 }
    }

    /// RFC 1951, section 3.2.6.
    private static let codes = (0..<288).map { symbol in
        switch symbol {
        case 0..<144: (bits: reversed(0x30 + symbol, 8), count: 8)
        case 144..<256: (bits: reversed(0x190 + symbol - 144, 9), count: 9)
        case 256..<280: (bits: reversed(symbol - 256, 7), count: 7)
        default: (bits: reversed(0xc0 + symbol - 280, 8), count: 8)
        }
    }
}
