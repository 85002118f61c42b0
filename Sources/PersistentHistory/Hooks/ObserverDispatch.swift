/// Calls the observers of a batch.
struct ObserverDispatch: Sendable {
    /// What came of it.
    struct Outcome: Sendable {
        /// The transactions, from the first, that every hook has had.
        var transactions: Int
        /// Deliveries made of the transaction after those.
        var done: Set<String> = []
        /// The delivery that failed, if one did.
        var failed: (delivery: DeliveryPlan.Delivery, failure: HookFailure)?
        /// Calls made, and the last token, by hook.
        var delivered: [String: (calls: Int, transactions: Int, last: HistoryToken)] = [:]
    }

    /// Makes a plan's calls, until one fails or a stop is requested.
    ///
    /// Calls that follow each other to one endpoint are handed to it together, so that it may have
    /// several under way; a call to another endpoint waits until those before it have succeeded.
    static func run(_ plan: DeliveryPlan, transactions count: Int, stop: StopSignal) async -> Outcome {
        var outcome = Outcome(transactions: count)
        var next = 0
        while next < plan.deliveries.count {
            let endpoint = plan.deliveries[next].hook.endpoint
            let end = plan.deliveries[next...].firstIndex { $0.hook.endpoint !== endpoint } ?? plan.deliveries.count
            let calls = plan.deliveries[next..<end].map(\.call)
            let result: ObserverOutcome
            if stop.isRequested {
                result = ObserverOutcome(succeeded: 0)
            } else {
                do {
                    result = try await stop.cancelling { await endpoint.observe(calls) }
                } catch {
                    result = ObserverOutcome(succeeded: 0)
                }
            }
            outcome.count(plan.deliveries[next..<(next + result.succeeded)])
            next += result.succeeded
            if next < end {
                let delivery = plan.deliveries[next]
                outcome.transactions = delivery.transaction
                outcome.done = Set(plan.deliveries[..<next].filter { $0.transaction == delivery.transaction }.map(\.call.header.delivery))
                if let failure = result.failure { outcome.failed = (delivery, failure) }
                return outcome
            }
        }
        return outcome
    }
}

extension ObserverDispatch.Outcome {
    fileprivate mutating func count(_ deliveries: ArraySlice<DeliveryPlan.Delivery>) {
        for delivery in deliveries {
            let token = delivery.call.transaction.token
            var counts = delivered[delivery.hook.name] ?? (0, 0, token)
            counts.calls += 1
            if counts.transactions == 0 || counts.last != token { counts.transactions += 1 }
            counts.last = token
            delivered[delivery.hook.name] = counts
        }
    }
}
