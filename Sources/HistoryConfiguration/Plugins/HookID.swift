import FoundationEssentials

/// A hook's id: the name-based UUID (version 5 of RFC 9562) of its full name. Any program can compute it:
/// `uuidgen --sha1 --namespace 5b1b9f0c-6a0f-4c53-9d0c-3f6d1f2b7a41 --name plugin/hook`.
enum HookID {
    private static let namespace: [UInt8] = [
        0x5b, 0x1b, 0x9f, 0x0c, 0x6a, 0x0f, 0x4c, 0x53, 0x9d, 0x0c, 0x3f, 0x6d, 0x1f, 0x2b, 0x7a, 0x41,
    ]

    static func make(fullName: String) -> UUID {
        var b = Array(SHA1.digest(namespace + Array(fullName.utf8)).prefix(16))
        b[6] = b[6] & 0x0F | 0x50
        b[8] = b[8] & 0x3F | 0x80
        return UUID(
            uuid: (
                b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
                b[15]
            ))
    }
}

/// SHA-1 (FIPS 180-4), which version 5 prescribes. It only derives names, and has no security purpose.
enum SHA1 {
    static func digest(_ message: [UInt8]) -> [UInt8] {
        var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0]
        var padded = message + [0x80]
        padded += [UInt8](repeating: 0, count: (120 - padded.count % 64) % 64)
        padded += bytes(of: UInt64(message.count) * 8)
        for start in stride(from: 0, to: padded.count, by: 64) {
            mix(padded[start..<start + 64], into: &state)
        }
        return state.flatMap(bytes(of:))
    }

    private static func mix(_ block: ArraySlice<UInt8>, into state: inout [UInt32]) {
        var w = stride(from: block.startIndex, to: block.endIndex, by: 4).map { start in
            block[start..<start + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        }
        for t in 16..<80 {
            w.append(rotated(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], by: 1))
        }
        var (a, b, c, d, e) = (state[0], state[1], state[2], state[3], state[4])
        for t in 0..<80 {
            let (f, k): (UInt32, UInt32) =
                switch t {
                case ..<20: (b & c | ~b & d, 0x5A82_7999)
                case ..<40: (b ^ c ^ d, 0x6ED9_EBA1)
                case ..<60: (b & c | b & d | c & d, 0x8F1B_BCDC)
                default: (b ^ c ^ d, 0xCA62_C1D6)
                }
            (a, b, c, d, e) = (rotated(a, by: 5) &+ f &+ e &+ k &+ w[t], a, rotated(b, by: 30), c, d)
        }
        for (index, word) in [a, b, c, d, e].enumerated() { state[index] &+= word }
    }

    private static func rotated(_ word: UInt32, by bits: UInt32) -> UInt32 {
        word << bits | word >> (32 - bits)
    }

    private static func bytes(of number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}
