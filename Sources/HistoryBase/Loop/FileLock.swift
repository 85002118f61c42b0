package import Glibc

/// Locks of open file descriptions (fcntl(2)). They end with the descriptor, and belong to no thread or
/// process.
///
/// F_OFD_GETLK and F_OFD_SETLK are from Linux's fcntl.h, which glibc exposes to GNU sources only.
@usableFromInline package enum FileLock {
    private static let (ask, set): (Int32, Int32) = (36, 37)

    private static func lock(_ type: Int32, _ bytes: Range<Int64>) -> flock {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(bytes.lowerBound)
        lock.l_len = off_t(bytes.count)
        return lock
    }

    /// Takes or releases a lock, without waiting.
    ///
    /// - Parameter type: F_RDLCK, F_WRLCK or F_UNLCK.
    /// - Returns: Whether that succeeded; if not, see `errno`.
    package static func set(_ descriptor: Int32, _ type: Int32, _ bytes: Range<Int64>) -> Bool {
        var lock = lock(type, bytes)
        return fcntl(descriptor, set, &lock) == 0
    }

    /// The first lock of another owner that conflicts with a lock of this type.
    ///
    /// - Parameter type: F_RDLCK or F_WRLCK.
    package static func conflict(
        _ descriptor: Int32, with type: Int32, in bytes: Range<Int64>
    ) throws(SystemError) -> flock? {
        var lock = lock(type, bytes)
        while fcntl(descriptor, ask, &lock) < 0 {
            if errno != EINTR { throw SystemError(call: "fcntl", number: errno) }
        }
        return lock.l_type == Int16(F_UNLCK) ? nil : lock
    }

    /// Where the first lock of another owner begins.
    package static func other(_ descriptor: Int32, in bytes: Range<Int64>) -> Int64? {
        (try? conflict(descriptor, with: F_WRLCK, in: bytes)).map { Int64($0.l_start) }
    }

    /// FNV-1a: the same in each process, unlike Swift's own hash.
    @inlinable package static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
}
