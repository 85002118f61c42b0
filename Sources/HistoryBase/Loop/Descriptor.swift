internal import Glibc

/// A descriptor that this process owns. Reading and writing it never block a thread.
///
/// Only one task may wait for it at a time.
package final class Descriptor: Sendable {
    private struct State {
        /// An edge came while no task was waiting.
        var isReady = false
        /// Waiting has ended. Available data may still be read.
        var isExpired = false
        var isClosed = false
        var registration: UInt64?
        var waiter: CheckedContinuation<Void, Never>?
        var handler: HistoryLoop.Handler?
    }

    package let number: Int32
    private let loop: HistoryLoop
    private let state = Locked(State())

    /// Takes ownership of the descriptor, even if it throws.
    package init(
        adopting number: Int32, for interest: HistoryLoop.Interest, file: StaticString = #fileID,
        line: UInt = #line
    ) throws(SystemError) {
        self.number = number
        do throws(SystemError) { loop = try HistoryLoop.shared() } catch {
            Glibc.close(number)
            throw error
        }
        do throws(SystemError) {
            guard fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK) == 0 else {
                throw SystemError(call: "fcntl", number: errno)
            }
            let key = try loop.register(number, for: interest, place: LoopPlace(file: file, line: line)) {
                self.ready()
            }
            state.withLock { $0.registration = key }
        } catch {
            close()
            throw error
        }
    }

    /// Closes it once, and ends all waiting.
    package func close() {
        let (isFirst, waiter, registration) = state.withLock { state in
            let isFirst = !state.isClosed
            state.isClosed = true
            state.handler = nil
            return (isFirst, state.waiter.take(), state.registration.take())
        }
        if let registration { loop.unregister(registration) }
        // The number is no longer used: every use first checks, under the lock, whether it is closed.
        if isFirst { Glibc.close(number) }
        waiter?.resume()
    }

    /// Ends all waiting. A reader gets what is in the pipe now, and then the end.
    ///
    /// For the pipe of a process that has ended: a descendant may still hold the other end open.
    package func expire() {
        let (waiter, handler) = state.withLock { state in
            state.isExpired = true
            return (state.waiter.take(), state.handler)
        }
        waiter?.resume()
        if let handler { loop.soon(handler) }
    }

    /// Calls the handler at each edge from now on, and soon if one has come already, instead of waking a
    /// waiting task. Nil ends that.
    package func onReady(_ handler: HistoryLoop.Handler?) {
        let isDue = state.withLock { state in
            if state.isClosed { return false }
            state.handler = handler
            guard handler != nil else { return false }
            defer { state.isReady = false }
            return state.isReady || state.isExpired
        }
        if isDue, let handler { loop.soon(handler) }
    }

    @LoopActor private func ready() {
        if let handler = state.withLock({ $0.handler }) { return handler() }
        becameReady()
    }

    func becameReady() {
        let waiter = state.withLock { state in
            if state.waiter == nil { state.isReady = true }
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Waits for the next edge. Returns at once if one has come, or if the task is cancelled.
    ///
    /// - Returns: False if there is nothing to wait for any more.
    package func wait() async -> Bool {
        await withTaskCancellationHandler {
            await waitUncancelled() && !Task.isCancelled
        } onCancel: {
            becameReady()
        }
    }

    /// The same, but it ignores the task's cancellation.
    package func waitUncancelled() async -> Bool {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.isReady || state.isExpired || state.isClosed {
                    state.isReady = false
                    return true
                }
                state.waiter = continuation
                return false
            }
            if isOver { continuation.resume() }
        }
        return state.withLock { !$0.isExpired && !$0.isClosed }
    }

    /// Reads what is available, and waits until something is.
    ///
    /// - Returns: 0 at the end of the file, after `expire`, and if the task is cancelled.
    package func read(into buffer: inout [UInt8]) async throws(SystemError) -> Int {
        while true {
            if let count = try readNow(into: &buffer) {
                // A process that writes as fast as this one reads would keep the thread busy.
                // `Task.yield` would switch to the runtime's own threads.
                if count == buffer.count { try? await loop.sleep(for: .zero) }
                return count
            }
            _ = await wait()
            if Task.isCancelled { return 0 }
        }
    }

    /// Reads what is available, without waiting.
    ///
    /// - Returns: 0 at the end of the file and after `expire`; nil if there is nothing yet.
    package func readNow(into buffer: inout [UInt8]) throws(SystemError) -> Int? {
        let isLast = state.withLock { $0.isExpired }
        switch try attempt(
            "read", { buffer.withUnsafeMutableBytes { Glibc.read(number, $0.baseAddress, $0.count) } })
        {
        case .closed: return 0
        case .done(let count):
            // One read takes all that a pipe holds, so the read after the expiry is the last.
            if isLast { close() }
            return count
        case .wouldBlock: return isLast ? 0 : nil
        }
    }

    /// Whether `expire` was called.
    package var isExpired: Bool { state.withLock { $0.isExpired } }

    /// Writes as much as there is room for, without waiting.
    ///
    /// - Returns: The number of bytes.
    package func writeNow(_ bytes: UnsafeBufferPointer<UInt8>) throws(SystemError) -> Int {
        switch try attempt("write", { Glibc.write(number, bytes.baseAddress, bytes.count) }) {
        case .closed, .wouldBlock: 0
        case .done(let count): count
        }
    }

    /// Writes everything, and waits while the pipe is full.
    ///
    /// - Returns: False if the waiting was ended before everything was written.
    package func write(_ bytes: [UInt8]) async throws(SystemError) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            switch try attemptWrite(rest) {
            case .closed: return false
            case .done(let count): rest = rest.dropFirst(count)
            case .wouldBlock: guard await wait() else { return false }
            }
        }
        return true
    }

    private enum Attempt {
        case done(Int)
        case wouldBlock
        case closed
    }

    private func attemptWrite(_ bytes: ArraySlice<UInt8>) throws(SystemError) -> Attempt {
        try attempt("write") { bytes.withUnsafeBytes { Glibc.write(number, $0.baseAddress, $0.count) } }
    }

    /// Under the lock, so that the number is not closed and reused in between.
    private func attempt(_ call: String, _ body: () -> Int) throws(SystemError) -> Attempt {
        let result: Result<Attempt, SystemError> = state.withLock { state in
            if state.isClosed { return .success(.closed) }
            while true {
                let count = body()
                if count >= 0 { return .success(.done(count)) }
                let number = errno
                if number == EAGAIN { return .success(.wouldBlock) }
                if number != EINTR { return .failure(SystemError(call: call, number: number)) }
            }
        }
        return try result.get()
    }
}

/// A system call that failed.
package struct SystemError: Error, CustomStringConvertible {
    package let call: String
    package let number: Int32

    package init(call: String, number: Int32) {
        self.call = call
        self.number = number
    }

    package var description: String { "\(call): \(Self.text(of: number))" }

    static func text(of number: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(number, &buffer, 256) == 0 else { return "error \(number)" }
        return buffer.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }
}
