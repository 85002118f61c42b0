/// Waits for a result, but no longer than some time: then the work is cancelled.
///
/// - Parameter limit: Nil for as long as it takes.
/// - Returns: Nil if it takes longer.
package func within<T: Sendable>(
    _ limit: Duration?, _ body: @escaping @Sendable () async throws -> T?
) async throws -> T? {
    guard let limit else { return try await body() }
    return try await withThrowingTaskGroup(of: T?.self) { group in
        defer { group.cancelAll() }
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit, clock: .loop)
            return nil
        }
        return try await group.next() ?? nil
    }
}

/// Waits for something, but no longer than some time: then it is cancelled.
package func wait(atMost timeout: Duration, for body: @escaping @Sendable () async -> Void) async {
    // Nothing in it throws but the sleep, which is cancelled with the caller.
    _ = try? await within(timeout) { await body() }
}
