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
        /// Calls made, by hook, in the order of their first.
        var delivered: [(hook: String, deliveries: Deliveries)] = []
    }

    /// How long calls that are under way when a stop is requested may take. One that takes longer is
    /// made again, with the same delivery id.
    private static let grace: Duration = .seconds(1)

    /// Makes a plan's calls, until one fails or a stop is requested.
    ///
    /// Calls that follow each other to one endpoint are handed to it together, so that it may have
    /// several under way; a call to another endpoint waits until those before it have succeeded.
    static func run(_ plan: DeliveryPlan, transactions count: Int, stop: StopSignal) async -> Outcome {
        var outcome = Outcome(transactions: count)
        var next = 0
        while next < plan.deliveries.count {
            let endpoint = plan.deliveries[next].hook.endpoint
            let end =
                plan.deliveries[next...].firstIndex { $0.hook.endpoint !== endpoint } ?? plan.deliveries.count
            let calls = plan.deliveries[next..<end].map(\.call)
            let result: ObserverOutcome
            if stop.isRequested {
                result = ObserverOutcome(succeeded: 0)
            } else {
                do {
                    result = try await stop.cancelling(after: grace) { await endpoint.observe(calls) }
                } catch {
                    result = ObserverOutcome(succeeded: 0)
                }
            }
            outcome.count(plan.deliveries[next..<(next + result.succeeded)])
            next += result.succeeded
            if next < end {
                let delivery = plan.deliveries[next]
                outcome.transactions = delivery.transaction
                outcome.done = Set(
                    plan.deliveries[..<next].filter { $0.transaction == delivery.transaction }.map(
                        \.call.header.delivery))
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
            let call = delivery.call
            let entity = call.changes.first?.entity.name
            let place = delivered.firstIndex { $0.hook == delivery.hook.name } ?? delivered.endIndex
            if place == delivered.endIndex {
                delivered.append((delivery.hook.name, Deliveries(call.transaction, entity: entity)))
            }
            delivered[place].deliveries.count(call.transaction, entity: entity)
        }
    }
}
