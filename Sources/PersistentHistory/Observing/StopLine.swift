internal import Glibc

/// Lets a thread that sleeps in poll(2) be told to end: two connected sockets, one of which is hung up.
final class StopLine: Sendable {
    /// Readable, with nothing in it, once `hangUp()` was called.
    let descriptor: Int32
    private let otherEnd: Int32

    init() throws(ObserverError) {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        if socketpair(AF_UNIX, type, 0, &ends) < 0 { throw .failed(to: "make a pair of sockets", errno) }
        descriptor = ends[0]
        otherEnd = ends[1]
    }

    deinit {
        close(descriptor)
        close(otherEnd)
    }

    func hangUp() {
        // Can fail only where it has been called before.
        shutdown(otherEnd, Int32(SHUT_RDWR))
    }
}
