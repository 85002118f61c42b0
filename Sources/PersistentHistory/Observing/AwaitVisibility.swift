extension VisibilityRule {
    /// Looks until everything that a signal spoke of has been seen.
    ///
    /// Call it after each signal, once that has been taken from its sequence.
    ///
    /// - Parameters:
    ///   - isWriterActive: whether a writer holds the store's lock.
    ///   - pause: lets time pass.
    ///   - look: fetches and handles what is new; whether there was anything, or nil if the store was too busy
    ///     to be read.
    /// - Throws: what the closures throw, and `CancellationError`.
    package func awaitVisibility(
        isWriterActive: () async throws -> Bool,
        pause: (Duration) async throws -> Void = { try await Task.sleep(for: $0, clock: .loop) },
        look: () async throws -> Bool?
    ) async throws {
        var rule = self
        var step = rule.woke()
        while true {
            try Task.checkCancellation()
            switch step {
            case .ask: step = rule.asked(writerActive: try await isWriterActive())
            case .look: step = rule.looked(foundNew: try await look())
            case .wait(let delay):
                try await pause(delay)
                step = rule.waited()
            case .rest: return
            }
        }
    }
}

extension WriterProbe {
    /// Looks until everything that a signal spoke of has been seen; see `VisibilityRule.awaitVisibility`.
    package func awaitVisibility(
        rule: VisibilityRule = VisibilityRule(),
        pause: (Duration) async throws -> Void = { try await Task.sleep(for: $0, clock: .loop) },
        look: () async throws -> Bool?
    ) async throws {
        try await rule.awaitVisibility(isWriterActive: isWriterActive, pause: pause, look: look)
    }
}
