internal import Glibc

/// A value behind a lock, for the few places where neither an actor nor a value will do.
///
/// `@unchecked` because the compiler cannot see that the lock guards the value: every access goes
/// through `withLock`. (`Synchronization.Mutex` would need no such word, but ThreadSanitizer
/// reports false races in it.)
package struct Locked<Value: Sendable>: @unchecked Sendable {
    private let box: LockedBox<Value>

    package init(_ value: Value) { box = .make(value) }

    package func withLock<T, E: Error>(_ body: (inout Value) throws(E) -> T) throws(E) -> T {
        try box.withLock(body)
    }
}

/// The value and its lock are one object, so that they are found in the same line of memory.
private final class LockedBox<Value>: ManagedBuffer<Value, pthread_mutex_t> {
    static func make(_ value: Value) -> LockedBox {
        let box = create(minimumCapacity: 1) { _ in value }
        // Can fail only where memory has to be allocated for it, which it has not here.
        box.withUnsafeMutablePointerToElements { _ = pthread_mutex_init($0, nil) }
        return unsafeDowncast(box, to: LockedBox.self)
    }

    deinit { withUnsafeMutablePointerToElements { _ = pthread_mutex_destroy($0) } }

    func withLock<T, E: Error>(_ body: (inout Value) throws(E) -> T) throws(E) -> T {
        withUnsafeMutablePointerToElements { _ = pthread_mutex_lock($0) }
        defer { withUnsafeMutablePointerToElements { _ = pthread_mutex_unlock($0) } }
        return try body(&header)
    }
}
