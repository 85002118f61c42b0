package import Glibc

/// The path of a Unix socket, as bind(2), connect(2) and sendto(2) take it.
package enum UnixAddress {
    /// The maximum number of bytes in a path.
    package static let longestPath = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    /// Calls a function with the address of a path.
    ///
    /// - Parameter mayBeAbstract: Whether a path that begins with `@` is a name in the abstract namespace (unix(7)).
    /// - Returns: What the call returns; -1 with `ENAMETOOLONG` for a path that is too long.
    package static func with<Result: SignedInteger>(
        _ path: String, mayBeAbstract: Bool = false, _ call: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(path.utf8)
        guard bytes.count <= longestPath else {
            errno = ENAMETOOLONG
            return -1
        }
        var length = MemoryLayout<sockaddr_un>.size
        if mayBeAbstract, bytes.first == UInt8(ascii: "@") {
            bytes[0] = 0
            // All bytes up to the length belong to the name.
            length = MemoryLayout<sa_family_t>.size + bytes.count
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { call($0, socklen_t(length)) }
        }
    }

    /// Listens at a path where nothing exists yet. The mode is set regardless of the umask, and before
    /// any process can connect.
    ///
    /// - Throws: `SystemError` with the number of the call that failed.
    package static func listen(at path: String, mode: mode_t) throws(SystemError) -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemError(call: "socket", number: errno) }
        guard with(path, { bind(descriptor, $0, $1) }) == 0, chmod(path, mode) == 0,
            Glibc.listen(descriptor, SOMAXCONN) == 0
        else {
            let error = SystemError(call: "listen on \"\(path)\"", number: errno)
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// Connects to the process that listens at a path.
    ///
    /// - Parameter timeout: How long to wait for a place in a full queue. The kernel assigns places in
    ///   order, so a waiting process comes before later ones.
    /// - Returns: A descriptor that does not block.
    /// - Throws: `SystemError` with the number of connect(2): `EAGAIN` if there was no place in time.
    package static func connect(to path: String, timeout: Duration = .zero) throws(SystemError) -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemError(call: "socket", number: errno) }
        if timeout > .zero {
            assertMayWait()
            let (seconds, attoseconds) = timeout.components
            // A timeval, whose members are not visible in all files that use it.
            var time = (Int(seconds), Int(attoseconds / 1_000_000_000_000))
            setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, socklen_t(MemoryLayout.size(ofValue: time)))
        } else {
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        }
        defer { _ = fcntl(descriptor, F_SETFL, O_NONBLOCK) }
        guard with(path, { Glibc.connect(descriptor, $0, $1) }) == 0 else {
            let error = SystemError(call: "connect to \"\(path)\"", number: errno)
            close(descriptor)
            throw error
        }
        return descriptor
    }
}
