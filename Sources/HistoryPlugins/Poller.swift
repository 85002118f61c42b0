import CSpawn
import Glibc
import PersistentHistory

/// One thread that waits, in epoll(7), for the descriptors of all children; idle, it sleeps.
///
/// Descriptors are registered once and edge-triggered: each edge is remembered by its
/// `Descriptor`, which reads or writes until the kernel would block and waits only then.
final class Poller: Sendable {
    static let shared = Poller()

    private struct Registered {
        var next: UInt64 = 0
        /// By a number that is never used again, so that a late event does not reach the next
        /// descriptor that the kernel gives the same number.
        var descriptors: [UInt64: Descriptor] = [:]
    }

    /// -1 where there is none to be had.
    private let epoll: Int32
    private let failure: Int32
    private let registered = Locked(Registered())

    private init() {
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        failure = epoll < 0 ? errno : 0
        guard epoll >= 0 else { return }
        var thread = pthread_t()
        let context = Unmanaged.passRetained(self)
        pthread_create(
            &thread, nil,
            { context in
                guard let context else { return nil }
                Unmanaged<Poller>.fromOpaque(context).takeUnretainedValue().run()
                return nil
            }, context.toOpaque())
        pthread_detach(thread)
    }

    enum Interest { case reading, writing }

    /// - Returns: the key to unregister by.
    func register(_ descriptor: Descriptor, for interest: Interest) throws(SystemError) -> UInt64 {
        guard epoll >= 0 else { throw SystemError(call: "epoll_create1", number: failure) }
        let key = registered.withLock { registered in
            registered.next += 1
            registered.descriptors[registered.next] = descriptor
            return registered.next
        }
        var event = epoll_event()
        event.events = (interest == .reading ? EPOLLIN.rawValue : EPOLLOUT.rawValue) | EPOLLET.rawValue
        event.data.u64 = key
        guard epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor.number, &event) == 0 else {
            let number = errno
            unregister(key)
            throw SystemError(call: "epoll_ctl", number: number)
        }
        return key
    }

    /// The kernel forgets a descriptor by itself when it is closed.
    func unregister(_ key: UInt64) {
        _ = registered.withLock { $0.descriptors.removeValue(forKey: key) }
    }

    private func run() {
        var events = [epoll_event](repeating: epoll_event(), count: 64)
        while true {
            let count = epoll_wait(epoll, &events, Int32(events.count), -1)
            // Only a signal can disturb the wait (epoll_wait(2)).
            guard count > 0 else { continue }
            for event in events[..<Int(count)] {
                let key = event.data.u64
                registered.withLock { $0.descriptors[key] }?.becameReady()
            }
        }
    }
}

/// A system call that failed.
struct SystemError: Error, CustomStringConvertible {
    let call: String
    let number: Int32

    var description: String { "\(call): \(Self.text(of: number))" }

    static func text(of number: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(number, &buffer, 256) == 0 else { return "error \(number)" }
        return buffer.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }
}
