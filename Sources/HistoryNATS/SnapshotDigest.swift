internal import CCrypto

/// The SHA-256 of a snapshot, by the library that libnats needs for TLS: it uses the processor's instructions for it.
package final class SnapshotDigest {
    private let context = EVP_MD_CTX_new()
    private var isComplete: Bool
    /// How many bytes it is the digest of.
    package private(set) var count = 0

    package init() { isComplete = EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 }

    deinit { EVP_MD_CTX_free(context) }

    package func update(_ bytes: UnsafeRawBufferPointer) {
        isComplete = EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1 && isComplete
        count += bytes.count
    }

    /// The digest of everything, in hexadecimal digits. To be called once.
    ///
    /// - Returns: Nil where OpenSSL's configuration refuses to calculate it.
    package func hexadecimal() -> String? {
        var digest = [UInt8](repeating: 0, count: 32)
        guard isComplete, EVP_DigestFinal_ex(context, &digest, nil) == 1 else { return nil }
        return digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Whether everything is what a snapshot's head says. To be called once, instead of `hexadecimal`.
    package func matches(_ head: GroupHeader.SnapshotHead) -> Bool {
        count == head.bytes && hexadecimal() == head.digest
    }
}
