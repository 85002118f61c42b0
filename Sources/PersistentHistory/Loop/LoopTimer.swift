/// A handler that is called when its time is up, unless it is cancelled before.
package struct LoopTimer: Sendable {
    let loop: HistoryLoop
    let key: UInt64

    package func cancel() { loop.cancel(key) }
}
