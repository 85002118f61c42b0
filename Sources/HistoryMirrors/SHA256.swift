internal import CCrypto

/// SHA-256 from the library that libnats needs for TLS: it uses the processor's instructions.
package final class SHA256 {
    /// OpenSSL's configuration does not allow SHA-256.
    package struct Refusal: Error, CustomStringConvertible {
        package var description: String { "OpenSSL does not calculate SHA-256." }
    }

    private let context = EVP_MD_CTX_new()
    private var isComplete: Bool
    /// How many bytes were added.
    package private(set) var count = 0

    package init() { isComplete = EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 }

    deinit { EVP_MD_CTX_free(context) }

    package func update(_ bytes: UnsafeRawBufferPointer) {
        isComplete = EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1 && isComplete
        count += bytes.count
    }

    /// The digest of everything, in hexadecimal digits. Call it once.
    package func hexadecimal() throws(Refusal) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        guard isComplete, EVP_DigestFinal_ex(context, &digest, nil) == 1 else { throw Refusal() }
        return digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// The digest of some bytes, in hexadecimal digits.
    package static func of(_ bytes: [UInt8]) throws(Refusal) -> String {
        let sum = SHA256()
        bytes.withUnsafeBytes { sum.update($0) }
        return try sum.hexadecimal()
    }
}
