/// The public part of a user's nkey, in base32: a byte for the kind of owner, the 32 bytes of an Ed25519 key,
/// and a CRC-16 (https://github.com/nats-io/nkeys).
enum NKey {
    private static let user: UInt8 = 20 << 3

    static func isUser(_ text: String) -> Bool {
        guard text.utf8.count == 56, let bytes = decoded(text), bytes.count == 35, bytes[0] == user else {
            return false
        }
        let crc = bytes.dropLast(2).reduce(UInt16(0)) { crc, byte in
            (0..<8).reduce(crc ^ UInt16(byte) << 8) { crc, _ in crc & 0x8000 != 0 ? crc << 1 ^ 0x1021 : crc << 1
            }
        }
        return bytes[33] == UInt8(crc & 0xFF) && bytes[34] == UInt8(crc >> 8)
    }

    private static func decoded(_ text: String) -> [UInt8]? {
        var bytes: [UInt8] = []
        var (bits, count) = (UInt32(0), 0)
        for character in text.utf8 {
            switch character {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): bits = bits << 5 | UInt32(character - UInt8(ascii: "A"))
            case UInt8(ascii: "2")...UInt8(ascii: "7"):
                bits = bits << 5 | UInt32(character - UInt8(ascii: "2") + 26)
            default: return nil
            }
            count += 5
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> count))
            }
        }
        return bytes
    }
}
