/// The receiver of a hook's calls: a plugin's process, or a closure.
///
/// Several hooks may share one endpoint (a plugin). An endpoint may be called for several consumers at
/// once, and answers them in sequence or concurrently.
package protocol HookEndpoint: AnyObject, Sendable {
    /// Makes the calls in order.
    ///
    /// An endpoint may have several calls in flight (a pipe holds more than one request), but it reports
    /// them in order. After the first failure, the calls behind it count as not made and are repeated,
    /// even if the plugin has already received them.
    ///
    /// If the task is cancelled, it returns early with what has succeeded so far and no failure.
    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome

    /// Whether a merge hook receives a large transaction in several calls. If not, one call has all its
    /// changes.
    var takesParts: Bool { get }

    /// How its calls represent large integers.
    var largeIntegers: LargeIntegers { get }

    /// Makes one call of a merge hook.
    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult

    /// Notifies the hook that a consumer has lost history. A hook that does not support such calls counts
    /// as notified.
    func expired(_ call: ExpiredCall) async throws(HookFailure)

    /// Makes no more observer calls: `observe` returns once those in flight are answered.
    func finishCalls()
}

extension HookEndpoint {
    package var takesParts: Bool { true }
    package var largeIntegers: LargeIntegers { .number }
    package func expired(_ call: ExpiredCall) async throws(HookFailure) {}
    package func finishCalls() {}
}

/// A request to an endpoint, as a value.
package enum HookRequest: Sendable {
    case observe([ObserverCall])
    case merge(MergeCall)
    case expired(ExpiredCall)
}

/// The answer to a request.
package enum HookAnswer: Sendable {
    case observed(ObserverOutcome)
    case merged(Result<MergeResult, HookFailure>)
    /// Why it failed; nil if it succeeded.
    case expired(HookFailure?)
}

/// An endpoint on the loop: calls and answers are function calls, without a waiting task.
package protocol LoopEndpoint: HookEndpoint {
    /// Begins a request. It is answered once, from another thread.
    func begin(_ request: HookRequest, answer: @escaping @Sendable (HookAnswer) -> Void)
        -> any HookConversation
}

/// A request that was started.
package protocol HookConversation: AnyObject, Sendable {
    /// Makes the answer come soon, with what has succeeded so far.
    func cancel()
}

extension HookEndpoint {
    /// The same for an endpoint that waits in its own task.
    func answer(_ request: HookRequest) async -> HookAnswer {
        switch request {
        case .observe(let calls): return .observed(await observe(calls))
        case .merge(let call):
            do throws(HookFailure) { return .merged(.success(try await merge(call))) } catch {
                return .merged(.failure(error))
            }
        case .expired(let call):
            do throws(HookFailure) { try await expired(call) } catch { return .expired(error) }
            return .expired(nil)
        }
    }
}

/// The result of a list of calls.
package struct ObserverOutcome: Sendable {
    /// How many calls, from the first, succeeded.
    package let succeeded: Int
    /// Why the next call failed; nil if all succeeded or the task was cancelled.
    package let failure: HookFailure?
    /// How long each successful call took; empty if not measured.
    package let microseconds: [Int64]

    package init(succeeded: Int, failure: HookFailure? = nil, microseconds: [Int64] = []) {
        self.succeeded = succeeded
        self.failure = failure
        self.microseconds = microseconds
    }
}

/// One failed attempt to call a hook.
public struct HookFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// How a call failed.
    public enum Reason: String, Sendable, Hashable {
        /// The process could not be started.
        case cannotStart
        /// The daemon itself lacks descriptors, processes or memory for the call. This does not count as
        /// an attempt.
        case daemonLacks
        /// The plugin answered with an error, or ended with a status other than 0.
        case refused
        /// The hook did not answer within its timeout; its process group was killed.
        case timedOut
        /// The process ended without an answer.
        case died
        /// The answer does not follow the protocol.
        case badAnswer
        /// The daemon is stopping.
        case cancelled
        /// The hook's condition could not be evaluated: it took too long for a row.
        case undecided
        /// The hook's condition does not fit the present table. The call is not given up until it does.
        case unfit
    }

    /// How the call failed.
    public let reason: Reason
    /// What failed, as human-readable text.
    public let message: String
    /// What the hook says about retries; nil if it says nothing.
    public let advice: Advice?

    /// A failure with its reason and a human-readable message.
    public init(_ reason: Reason, _ message: String, advice: Advice? = nil) {
        self.reason = reason
        self.message = message
        self.advice = advice
    }

    /// As text.
    public var description: String { message }

    /// A failure for a condition that could not be evaluated; nil if it could.
    init?(_ verdict: RowVerdict) {
        switch verdict {
        case .wanted, .unwanted: return nil
        case .failed(let text): self.init(.undecided, "Its \"where\" could not be decided: \(text)")
        case .unfit(let text): self.init(.unfit, "Its \"where\" cannot be decided: \(text).")
        }
    }
}
