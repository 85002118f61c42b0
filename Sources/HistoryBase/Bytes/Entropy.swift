internal import CPlatform
package import FoundationEssentials
internal import Glibc

/// Random bits of the kernel for identities. They come from getrandom(2), which needs no descriptor. If
/// it fails, there is no fallback.
package enum Entropy {
    /// A random UUID (RFC 9562, version 4).
    package static func uuid() throws(SystemError) -> UUID {
        try uuid { getrandom($0.baseAddress, $0.count, 0) }
    }

    /// - Parameter fill: Fills the buffer as getrandom(2) does.
    static func uuid(_ fill: (UnsafeMutableRawBufferPointer) -> Int) throws(SystemError) -> UUID {
        var bytes: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        let (count, number): (Int, Int32) = withUnsafeMutableBytes(of: &bytes) { buffer in
            while true {
                // Up to 256 bytes are returned completely or not at all.
                let count = fill(buffer)
                if count >= 0 || errno != EINTR { return (count, errno) }
            }
        }
        guard count == 16 else { throw SystemError(call: "getrandom", number: count < 0 ? number : EIO) }
        return version4(bytes)
    }
}

extension StoreID {
    /// The id of a newly tracked store.
    ///
    /// - Throws: `HistoryError` with `.noRandomness`.
    package static func random() throws(HistoryError) -> StoreID {
        do throws(SystemError) {
            return StoreID(try Entropy.uuid())
        } catch {
            throw HistoryError(
                .noRandomness, "The store cannot be given an id: the kernel has no random bits (\(error)).",
                hint: "Try again.", cause: error)
        }
    }
}

extension UUID {
    /// A random UUID for something that exists only as long as the process. Unlike `UUID()`, it opens no
    /// file.
    package static func random() -> UUID {
        let bytes = withUnsafeBytes(of: (UInt64.random(in: 0 ... .max), UInt64.random(in: 0 ... .max))) {
            $0.loadUnaligned(as: uuid_t.self)
        }
        return version4(bytes)
    }
}

/// Marks random bits as a UUID of version 4.
private func version4(_ bytes: uuid_t) -> UUID {
    var bytes = bytes
    bytes.6 = bytes.6 & 0x0F | 0x40
    bytes.8 = bytes.8 & 0x3F | 0x80
    return UUID(uuid: bytes)
}
