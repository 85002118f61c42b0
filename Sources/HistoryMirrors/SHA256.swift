/// SHA-256 (FIPS 180-4), for what travels: whether two descriptions are the same.
///
/// The standard library has none, and a library for it alone would be a dependency of everyone.
package enum SHA256 {
    /// The digest of some bytes, in hexadecimal digits.
    package static func of(_ bytes: some Sequence<UInt8>) -> String {
        var message = Array(bytes)
        let bits = UInt64(message.count) * 8
        message.append(0x80)
        message += [UInt8](repeating: 0, count: (120 - message.count % 64) % 64)
        withUnsafeBytes(of: bits.bigEndian) { message += $0 }
        var state: [UInt32] = [
            0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab,
            0x5be0_cd19,
        ]
        message.withUnsafeBytes { message in
            state.withUnsafeMutableBufferPointer { state in
                for start in stride(from: 0, to: message.count, by: 64) {
                    compress(UnsafeRawBufferPointer(rebasing: message[start..<start + 64]), &state)
                }
            }
        }
        let digits = state.flatMap { word in
            stride(from: 28, through: 0, by: -4).map {
                Hexadecimal.digit(UInt8(truncatingIfNeeded: word >> $0) & 15)
            }
        }
        return String(decoding: digits, as: UTF8.self)
    }

    private static func compress(
        _ block: UnsafeRawBufferPointer, _ state: inout UnsafeMutableBufferPointer<UInt32>
    ) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            for index in 0..<16 {
                words[index] = UInt32(
                    bigEndian: block.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self))
            }
            for index in 16..<64 {
                let (early, late) = (words[index - 15], words[index - 2])
                let first = early.rotated(7) ^ early.rotated(18) ^ early >> 3
                let second = late.rotated(17) ^ late.rotated(19) ^ late >> 10
                words[index] = words[index - 16] &+ first &+ words[index - 7] &+ second
            }
            var (a, b, c, d) = (state[0], state[1], state[2], state[3])
            var (e, f, g, h) = (state[4], state[5], state[6], state[7])
            for index in 0..<64 {
                let choice = (e & f) ^ (~e & g)
                let sum = e.rotated(6) ^ e.rotated(11) ^ e.rotated(25)
                let first = h &+ sum &+ choice &+ constants[index] &+ words[index]
                let majority = (a & b) ^ (a & c) ^ (b & c)
                let second = (a.rotated(2) ^ a.rotated(13) ^ a.rotated(22)) &+ majority
                (h, g, f, e) = (g, f, e, d &+ first)
                (d, c, b, a) = (c, b, a, first &+ second)
            }
            for (index, value) in [a, b, c, d, e, f, g, h].enumerated() { state[index] &+= value }
        }
    }

    /// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
    private static let constants: [UInt32] = [
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    ]
}

extension UInt32 {
    fileprivate func rotated(_ bits: UInt32) -> UInt32 { self >> bits | self << (32 - bits) }
}
