/// Waits for something, but no longer than some time: then it is cancelled.
package func wait(atMost timeout: Duration, for body: @escaping @Sendable () async -> Void) async {
    await withTaskGroup(of: Void.self) { group in
        group.addTask { await body() }
        // Woken early only by the cancellation that follows.
        group.addTask { try? await Task.sleep(for: timeout, clock: .loop) }
        await group.next()
        group.cancelAll()
    }
}
