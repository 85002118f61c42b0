public import Glibc

/// A value behind a lock, for the few places where neither an actor nor a value suffices.
///
/// `@unchecked` because the compiler cannot see that the lock guards the value: every access goes through
/// `withLock`. (`Synchronization.Mutex` would not need it, but ThreadSanitizer reports false races in
/// it.)
///
/// What other modules call for each change is `@inlinable`, and its type `@usableFromInline`: the compiler
/// specializes and inlines nothing else across modules. Of a type that is `package` alone, it takes no
/// generic function.
@usableFromInline package struct Locked<Value: Sendable>: @unchecked Sendable {
    @usableFromInline let box: LockedBox<Value>

    @inlinable package init(_ value: Value) { box = .make(value) }

    @inlinable package func withLock<T, E: Error>(_ body: (inout Value) throws(E) -> T) throws(E) -> T {
        try box.withLock(body)
    }
}

/// The value and its lock are one object, so that they share a cache line. The lock comes first: a value
/// of size zero would be at the object's type, which all threads read.
@usableFromInline final class LockedBox<Value>: ManagedBuffer<pthread_mutex_t, Value> {
    @inlinable static func make(_ value: Value) -> LockedBox {
        let box = create(minimumCapacity: 1) { _ in pthread_mutex_t() }
        box.withUnsafeMutablePointers { lock, values in
            // It fails only if it has to allocate memory, which it does not here.
            pthread_mutex_init(lock, nil)
            values.initialize(to: value)
        }
        return unsafeDowncast(box, to: LockedBox.self)
    }

    @inlinable deinit {
        withUnsafeMutablePointers { lock, values in
            values.deinitialize(count: 1)
            pthread_mutex_destroy(lock)
        }
    }

    @inlinable func withLock<T, E: Error>(_ body: (inout Value) throws(E) -> T) throws(E) -> T {
        try withUnsafeMutablePointers { lock, values throws(E) in
            pthread_mutex_lock(lock)
            defer { pthread_mutex_unlock(lock) }
            return try body(&values.pointee)
        }
    }
}
