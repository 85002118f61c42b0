/// Decompresses raw DEFLATE data (RFC 1951) up to a limit, because a few bytes may expand to any size.
struct Inflate: ~Copyable {
    /// What is wrong with the data.
    struct Failure: Error, Equatable {
        let message: String
        init(_ message: String) { self.message = message }
    }

    private let input: UnsafeBufferPointer<UInt8>
    private var position = 0
    private var bits: UInt32 = 0
    private var bitCount: UInt32 = 0
    private var output: [UInt8] = []
    private let limit: Int

    /// - Parameter limit: The largest size of the result.
    static func inflate(_ bytes: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        try bytes.withUnsafeBufferPointer { input throws(Failure) in
            var inflate = Inflate(input: input, limit: limit)
            return try inflate.run()
        }
    }

    private mutating func run() throws(Failure) -> [UInt8] {
        var isLast = false
        while !isLast {
            isLast = try take(1) == 1
            switch try take(2) {
            case 0: try copyStored()
            case 1: try expand(Self.fixed.lengths, Self.fixed.distances)
            case 2:
                let codes = try dynamicCodes()
                try expand(codes.lengths, codes.distances)
            default: throw Failure("a block has no known kind")
            }
        }
        return output
    }

    // MARK: Bits

    private mutating func take(_ count: UInt32) throws(Failure) -> Int {
        while bitCount < count {
            guard position < input.count else { throw Failure("the data ends too early") }
            bits |= UInt32(input[position]) << bitCount
            position += 1
            bitCount += 8
        }
        let value = bits & ((1 << count) - 1)
        bits >>= count
        bitCount -= count
        return Int(value)
    }

    // MARK: Blocks

    private mutating func copyStored() throws(Failure) {
        bits = 0
        bitCount = 0
        guard input.count - position >= 4 else { throw Failure("the data ends too early") }
        let length = Int(input[position]) | Int(input[position + 1]) << 8
        let complement = Int(input[position + 2]) | Int(input[position + 3]) << 8
        guard length == ~complement & 0xffff else { throw Failure("a stored block has no valid length") }
        position += 4
        guard input.count - position >= length else { throw Failure("the data ends too early") }
        try reserve(length)
        output.append(contentsOf: input[position..<position + length])
        position += length
    }

    private mutating func expand(_ lengths: HuffmanCode, _ distances: HuffmanCode) throws(Failure) {
        while true {
            let symbol = try decode(lengths)
            if symbol < 256 {
                try reserve(1)
                output.append(UInt8(truncatingIfNeeded: symbol))
                continue
            }
            if symbol == 256 { return }
            guard symbol - 257 < Self.lengthBases.count else { throw Failure("a length has no meaning") }
            let length = Self.lengthBases[symbol - 257] + (try take(Self.lengthBits[symbol - 257]))
            let code = try decode(distances)
            guard code < Self.distanceBases.count else { throw Failure("a distance has no meaning") }
            let distance = Self.distanceBases[code] + (try take(Self.distanceBits[code]))
            guard distance <= output.count else { throw Failure("a distance leads to before the data") }
            try reserve(length)
            var from = output.count - distance
            for _ in 0..<length {
                output.append(output[from])
                from += 1
            }
        }
    }

    private func reserve(_ count: Int) throws(Failure) {
        if output.count + count > limit { throw Failure("it expands to more than \(limit) bytes") }
    }

    private mutating func decode(_ code: HuffmanCode) throws(Failure) -> Int {
        // Canonical codes: the codes of one length are consecutive numbers.
        var (value, first, index) = (0, 0, 0)
        for length in 1...15 {
            value |= try take(1)
            let count = code.counts[length]
            if value - count < first { return code.symbols[index + value - first] }
            index += count
            first = (first + count) << 1
            value <<= 1
        }
        throw Failure("a code has no symbol")
    }

    private mutating func dynamicCodes() throws(Failure) -> (lengths: HuffmanCode, distances: HuffmanCode) {
        let lengthCount = try take(5) + 257
        let distanceCount = try take(5) + 1
        let codeCount = try take(4) + 4
        guard lengthCount <= 286, distanceCount <= 30 else { throw Failure("a block has too many codes") }
        var codeLengths = [UInt8](repeating: 0, count: 19)
        for index in 0..<codeCount { codeLengths[Self.order[index]] = UInt8(try take(3)) }
        let code = try HuffmanCode(codeLengths[...])
        var lengths: [UInt8] = []
        while lengths.count < lengthCount + distanceCount {
            let symbol = try decode(code)
            switch symbol {
            case 0..<16: lengths.append(UInt8(symbol))
            case 16:
                guard let last = lengths.last else { throw Failure("a length is repeated before the first") }
                lengths += [UInt8](repeating: last, count: 3 + (try take(2)))
            case 17: lengths += [UInt8](repeating: 0, count: 3 + (try take(3)))
            default: lengths += [UInt8](repeating: 0, count: 11 + (try take(7)))
            }
        }
        guard lengths.count == lengthCount + distanceCount else {
            throw Failure("a block has too many lengths")
        }
        return (try HuffmanCode(lengths[..<lengthCount]), try HuffmanCode(lengths[lengthCount...]))
    }

    // MARK: Tables (RFC 1951, section 3.2.5 to 3.2.7)

    private static let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
    private static let lengthBases = [
        3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
        227, 258,
    ]
    private static let lengthBits: [UInt32] = [
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
    ]
    private static let distanceBases = [
        1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073,
        4097, 6145, 8193, 12289, 16385, 24577,
    ]
    private static let distanceBits: [UInt32] = [
        0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
    ]
    private static let fixed = (
        lengths: HuffmanCode(
            known: (0..<288).map { $0 < 144 ? 8 : $0 < 256 ? 9 : $0 < 280 ? 7 : 8 }),
        distances: HuffmanCode(known: [UInt8](repeating: 5, count: 30))
    )
}

/// A canonical Huffman code: how many codes each length has, and the symbols in the order of their codes.
private struct HuffmanCode: Sendable {
    let counts: [Int]
    let symbols: [Int]

    init(_ lengths: ArraySlice<UInt8>) throws(Inflate.Failure) {
        self.init(known: Array(lengths))
        var free = 1
        for length in 1...15 {
            free = free << 1 - counts[length]
            if free < 0 { throw Inflate.Failure("a code has too many symbols") }
        }
    }

    init(known lengths: [UInt8]) {
        var counts = [Int](repeating: 0, count: 16)
        for length in lengths { counts[Int(length)] += 1 }
        var offsets = [Int](repeating: 0, count: 16)
        for length in 1..<15 { offsets[length + 1] = offsets[length] + counts[length] }
        var symbols = [Int](repeating: 0, count: lengths.count)
        for (symbol, length) in lengths.enumerated() where length > 0 {
            symbols[offsets[Int(length)]] = symbol
            offsets[Int(length)] += 1
        }
        counts[0] = 0
        self.counts = counts
        self.symbols = symbols
    }
}
