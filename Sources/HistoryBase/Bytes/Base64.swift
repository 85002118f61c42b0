/// Writes blobs as text directly to their destination: Foundation copies them twice.
enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    static func append(_ blob: [UInt8], to bytes: inout ByteBuffer) {
        for start in stride(from: 0, to: blob.count, by: 3) {
            let three = blob[start..<min(start + 3, blob.count)]
            var bits: UInt32 = 0
            for index in 0..<3 {
                bits = bits << 8 | (index < three.count ? UInt32(three[start + index]) : 0)
            }
            for index in 0..<4 {
                let sextet = Int(bits >> (18 - 6 * UInt32(index)) & 63)
                bytes.append(index <= three.count ? alphabet[sextet] : UInt8(ascii: "="))
            }
        }
    }

    static func text(_ blob: [UInt8]) -> String {
        var bytes = ByteBuffer(reservingCapacity: (blob.count + 2) / 3 * 4)
        append(blob, to: &bytes)
        return bytes.text
    }
}
