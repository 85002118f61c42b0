/// Calls the observers of a batch.
struct ObserverDispatch: Sendable {
    /// What came of it.
    struct Outcome: Sendable {
        /// The call that comes next where not all were made.
        var next: ObserverCall?
        /// Why it failed; nil where it was not made.
        var failure: HookFailure?
        /// Deliveries made of the next call's transaction.
        var done: Set<String> = []
        /// Calls made, by hook, in the order of their first.
        var delivered: [(hook: String, deliveries: Deliveries)] = []
    }

    /// Makes a plan's calls, until one fails or a stop is requested. Returns early when the task is cancelled.
    ///
    /// Calls that follow each other to one endpoint are handed to it together, so that it may have
    /// several under way; a call to another endpoint waits until those before it have succeeded.
    static func run(_ plan: DeliveryPlan, stop: StopSignal) async -> Outcome {
        var outcome = Outcome()
        for (place, run) in plan.runs.enumerated() {
            let result =
                stop.isRequested ? ObserverOutcome(succeeded: 0) : await run.endpoint.observe(run.calls)
            outcome.count(run.calls.prefix(result.succeeded))
            guard result.succeeded < run.calls.count else { continue }
            let next = run.calls[result.succeeded]
            outcome.next = next
            outcome.failure = result.failure
            let made = plan.runs[..<place].flatMap(\.calls) + run.calls[..<result.succeeded]
            outcome.done = Set(
                made.reversed().prefix { $0.transaction.number == next.transaction.number }
                    .map(\.header.delivery))
            return outcome
        }
        return outcome
    }
}

extension ObserverDispatch.Outcome {
    fileprivate mutating func count(_ calls: ArraySlice<ObserverCall>) {
        // Calls of one hook mostly come together: they are counted in place, and only the last is told of.
        var start = calls.startIndex
        while start < calls.endIndex {
            let route = calls[start].header.route
            let end = calls[start...].indices.first { calls[$0].header.route !== route } ?? calls.endIndex
            count(calls[start..<end], of: route.hook)
            start = end
        }
    }

    private mutating func count(_ calls: ArraySlice<ObserverCall>, of hook: String) {
        guard let last = calls.last else { return }
        let place = delivered.firstIndex { $0.hook == hook } ?? delivered.endIndex
        if place == delivered.endIndex { delivered.append((hook, Deliveries(last.transaction))) }
        delivered[place].deliveries.count(calls, last: last)
    }
}
