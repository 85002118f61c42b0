internal import DequeModule
internal import Dispatch

/// What threads are to do that sleep while there is nothing.
package final class ThreadQueue<Element: Sendable>: Sendable {
    private let elements = Locked<Deque<Element>>([])
    private let count = DispatchSemaphore(value: 0)

    package init() {}

    package func add(_ element: Element) {
        elements.withLock { $0.append(element) }
        count.signal()
    }

    /// Blocks the thread until there is something.
    package func next() -> Element {
        while true {
            count.wait()
            if let element = elements.withLock({ $0.popFirst() }) { return element }
        }
    }
}
