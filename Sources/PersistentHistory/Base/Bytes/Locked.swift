internal import Glibc

/// A value behind a lock, for the few places where neither an actor nor a value suffices.
///
/// `@unchecked` because the compiler cannot see that the lock guards the value: every access goes through
/// `withLock`. (`Synchronization.Mutex` would not need it, but ThreadSanitizer reports false races in
/// it.)
package struct Locked<Value: Sendable>: @unchecked Sendable {
    private let box: LockedBox<Value>

    package init(_ value: Value) { box = .make(value) }

    package func withLock<T, E: Error>(_ body: (inout Value) throws(E) -> T) throws(E) -> T {
        try box.withLock(body)
    }
}

/// The value and its lock are one object, so that they share a cache line. The lock comes first: a value
/// of size zero would be at the object's type, which all threads read.
private final class LockedBox<Value>: ManagedBuffer<pthread_mutex_t, Value> {
    static func make(_ value: Value) -> LockedBox {
        let box = create(minimumCapacity: 1) { _ in pthread_mutex_t() }
        box.withUnsafeMutablePointers { lock, values in
            // It fails only if it has to allocate memory, which it does not here.
            pthread_mutex_init(lock, nil)
            values.initialize(to: value)
        }
        return unsafeDowncast(box, to: LockedBox.self)
    }

    deinit {
        withUnsafeMutablePointers { lock, values in
            values.deinitialize(count: 1)
            pthread_mutex_destroy(lock)
        }
    }

    func withLock<T, E: Error>(_ body: (inout Value) throws(E) -> T) throws(E) -> T {
        try withUnsafeMutablePointers { lock, values throws(E) in
            pthread_mutex_lock(lock)
            defer { pthread_mutex_unlock(lock) }
            return try body(&values.pointee)
        }
    }
}
