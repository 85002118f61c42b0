/// A call to a plugin that keeps a context of a consumer: `HistoryContext` as messages.
package struct ContextCall: Sendable {
    /// What the plugin must do.
    package enum Request: Sendable {
        /// Return the context's checkpoint.
        case checkpoint
        /// Merge changes. The checkpoint is `through` afterwards.
        ///
        /// - part: The part of a large transaction, which is alone. Only the last part moves the
        ///   checkpoint.
        case merge([HistoryTransaction], after: HistoryToken, through: HistoryToken, part: CallPart?)
        /// Rebuild everything from the present store. The checkpoint is `through` afterwards.
        case refill(entities: [String], through: HistoryToken)
        /// The context will be filled again, for this reason.
        case expired(Expiry)
    }

    let context: PluginContext
    /// The store's configured name, and its file.
    let store: (name: String, path: String)
    let consumer: String
    package let request: Request

    /// - Parameter store: The store's configured name, and its file.
    package init(
        _ request: Request, context: PluginContext, store: (name: String, path: String), consumer: String
    ) {
        self.context = context
        self.store = store
        self.consumer = consumer
        self.request = request
    }

    /// The method's name in the protocol.
    package var method: String {
        switch request {
        case .checkpoint: "context.checkpoint"
        case .merge: "context.merge"
        case .refill: "context.refill"
        case .expired: "context.expired"
        }
    }

    /// Appends the call's parameters as one object.
    package func write(_ largeIntegers: LargeIntegers = .number, to json: inout JSONBytes) {
        json.object(largeIntegers) { json in
            json.member("store", store.name)
            json.member("consumer", consumer)
            json.member("context", context.name)
            json.member("path", store.path)
            writeRequest(to: &json)
        }
    }

    private func writeRequest(to json: inout JSONBytes) {
        switch request {
        case .checkpoint: break
        case .merge(let transactions, let after, let through, let part):
            Self.write("after", after, to: &json)
            Self.write("through", through, to: &json)
            part?.write(to: &json)
            json.name("transactions")
            json.array { json in
                for transaction in transactions { HistoryJSON.write(transaction, to: &json) }
            }
        case .refill(let entities, let through):
            Self.write("through", through, to: &json)
            json.member("entities", entities)
        case .expired(let expiry): expiry.writeMembers(to: &json)
        }
    }

    private static func write(_ name: StaticString, _ token: HistoryToken, to json: inout JSONBytes) {
        json.name(name)
        HistoryJSON.write(token, to: &json)
    }
}

/// A plugin's answer to a context's call.
package struct ContextAnswer: Sendable {
    package enum Result: Sendable, Equatable {
        case done
        /// Nil if the context must be filled.
        case checkpoint(HistoryToken?)
        /// The plugin leaves the checkpoint to the daemon, because it does not know the method.
        case checkpointUnknown
        /// The process that the call was for has ended: the call was not made.
        case notMade
    }

    package let result: Result
    /// The plugin's process that answered.
    package let process: Int

    package init(_ result: Result, process: Int) {
        self.result = result
        self.process = process
    }
}

/// The receiver of a context's calls: a plugin's process.
package protocol ContextEndpoint: Sendable {
    /// Makes one call.
    ///
    /// - Parameter process: The process that the call is for; nil for whichever runs.
    func call(_ call: ContextCall, of process: Int?) async throws(HookFailure) -> ContextAnswer

    /// The processes of the plugin that begin from now on, by their numbers.
    var processes: AsyncStream<Int> { get }
}

extension ContextEndpoint {
    /// None: one process for as long as it is used.
    package var processes: AsyncStream<Int> { AsyncStream { $0.finish() } }
}
