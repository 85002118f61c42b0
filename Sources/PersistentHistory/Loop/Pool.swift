/// Does what may take long, such as copying a store, on the threads of Swift's pool: whoever runs on the
/// loop would keep all others waiting.
func onPool<T>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> T
) async rethrows -> T {
    try await withTaskExecutorPreference(globalConcurrentExecutor, isolation: isolation, operation: body)
}
