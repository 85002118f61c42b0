internal import Foundation

/// A value behind a lock, for the few places where neither an actor nor a value will do.
///
/// `@unchecked` because the compiler cannot see that the lock guards the value: every access goes
/// through `withLock`. (`Synchronization.Mutex` would need no such word, but ThreadSanitizer
/// reports false races in it.)
package final class Locked<Value: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    package init(_ value: Value) { self.value = value }

    package func withLock<T, E: Error>(_ body: (inout Value) throws(E) -> T) throws(E) -> T {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
