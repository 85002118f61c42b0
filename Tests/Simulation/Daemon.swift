import CSimulation
import PersistentHistory

/// A life of the daemon: it serves the scenario's stores until the script ends it.
struct Daemon: Sendable {
    let scenario: Scenario
    let files: Files
    let record: Record
    let deliveries: Deliveries
    let plugins: [ScriptedPlugin]
    let controls: [StoreControl]
    let stop = OneShotEvent()

    init(_ scenario: Scenario, _ files: Files, _ record: Record, _ deliveries: Deliveries) {
        self.scenario = scenario
        self.files = files
        self.record = record
        self.deliveries = deliveries
        plugins = scenario.stores.map { ScriptedPlugin(store: $0.name, record: record, deliveries: deliveries) }
        controls = scenario.stores.map { _ in StoreControl() }
    }

    /// Serves until `stop`.
    func run() async throws {
        let observer = try StoreObserver()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await observer.run() }
            group.addTask {
                await withTaskGroup(of: Void.self) { group in
                    for index in scenario.stores.indices { group.addTask { await serve(index, observer) } }
                    for index in scenario.stores.indices { follow(index, in: &group) }
                    group.addTask { await watch() }
                }
                observer.stop()
            }
            try await group.waitForAll()
        }
    }

    private func serve(_ index: Int, _ observer: StoreObserver) async {
        let store = scenario.stores[index]
        let path = files.store(store.name)
        let rule = DeliveryRule(authors: ["App0", "App1", "Copy0", "Copy1", "Writer", "Torn"])
        let consumers = store.consumers.map { consumer in
            Consumer(
                store: store.name, author: consumer.author, rule: rule,
                contexts: consumer.hasReplica
                    ? [
                        ReplicaContext(
                            name: "copy", path: files.replica(store.name, consumer.author), entities: nil)
                    ]
                    : [],
                feeds: consumer.hasFeed ? [FeedContext(name: "feed", window: 3)] : [])
        }
        let served = ServedStore(
            name: store.name, path: path, entities: ["person": nil, "item": nil], rule: rule,
            consumers: consumers,
            cleaning: store.cleansAfter.map { .byNotification(times: $0) } ?? .none)
        let hooks = store.consumers.enumerated().flatMap { number, consumer in
            consumer.hooks.map { hook in
                Hook(
                    id: Files.id(number, hook.name), name: hook.name, kind: .observer, entity: hook.entity,
                    consumer: consumer.author, endpoint: plugins[index],
                    policy: FailurePolicy(
                        attempts: 3, initialDelay: .milliseconds(20), maximumDelay: .milliseconds(500)))
            }
        }
        let runner = StoreRunner(
            served, hooks: HookRegistry(hooks), stateFolder: files.state,
            reporter: Reporter(store: store.name, record: record), stop: stop, control: controls[index])
        while !stop.isSignaled {
            do {
                let signals = try await onPool { () async throws -> StoreSignals in try observer.watch(path) }
                try await runner.run(watching: signals)
            } catch {
                record.write("failed", store.name, "\(error)")
                await stop.sleep(for: .milliseconds(500))
            }
        }
        controls[index].end()
    }

    /// What the watchdog asks before it is fed: whether the loop turns, and how far those are that work.
    private func watch() async {
        while !stop.isSignaled {
            await stop.sleep(for: .seconds(1))
            await LoopActor.turn()
            for control in controls where await control.isAtWork() {
                guard let positions = try? await control.positions() else { continue }
                let behind = positions.cursors.values.map(\.position).filter { $0 < positions.newest.number }
                _ = try? await control.backlogs(after: Set(behind), of: [])
            }
            record.write("watched")
        }
    }

    /// Programs that are connected to feeds, and acknowledge what they get.
    private func follow(_ index: Int, in group: inout TaskGroup<Void>) {
        let store = scenario.stores[index]
        for consumer in store.consumers where consumer.hasFeed {
            // As the control socket's server does.
            group.addTask(executorPreference: BlockingExecutor.shared) {
                while !stop.isSignaled {
                    let time = Duration.milliseconds(Int64(csimulation_random() % 20_000))
                    await wait(atMost: time) { await receive(index, consumer.author) }
                    await stop.sleep(for: .milliseconds(Int64(csimulation_random() % 500)))
                }
            }
        }
    }

    private func receive(_ index: Int, _ consumer: String) async {
        let store = scenario.stores[index].name
        let feed = FeedID(consumer: consumer, context: "feed")
        do {
            try await controls[index].feed(feed, to: FeedClient(processID: 1, userID: 1)) {
                record.write("connected", store, consumer)
            } send: { bytes in
                for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
                    guard let number = Self.number(in: line) else { continue }
                    record.write(
                        "fed", store, consumer, "\(number)", line.contains("\"expired\"") ? "expired" : "")
                    deliveries.add(store, consumer, "feed", number)
                }
                try await stop.cancelling {
                    try await Task.sleep(for: .microseconds(Int64(csimulation_random() % 3000)), clock: .loop)
                    if let last = String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap(
                        Self.token
                    ).last {
                        _ = try await controls[index].acknowledge(last, of: feed, by: 1)
                    }
                }
            }
        } catch {
            record.write("disconnected", store, consumer, error is CancellationError ? "" : "\(error)")
        }
    }

    private static func token(in line: Substring) -> HistoryToken? {
        guard let start = line.firstRange(of: "\"token\":\"")?.upperBound else { return nil }
        return HistoryToken(String(line[start...].prefix { $0 != "\"" }))
    }

    private static func number(in line: Substring) -> Int64? { token(in: line)?.number }
}

/// Notes what a store's parts report.
private struct Reporter: PipelineReporter {
    let store: String
    let record: Record

    func report(_ event: PipelineEvent) {
        switch event {
        case .cursorMoved(let consumer, let token): record.write("moved", store, consumer, "\(token.number)")
        case .consumerStands(let consumer, let token):
            record.write("stands", store, consumer, "\(token.number)")
        case .historyLost(let consumer, let expiry): record.write("lost", store, consumer, "\(expiry.reason)")
        case .tokenExpired(let consumer, let error): record.write("lost", store, consumer, "\(error)")
        case .feedExpired(let consumer, _, let expiry):
            record.write("lost", store, consumer, "feed \(expiry.reason)")
        case .merged(let consumer, _, _, let last): record.write("merged", store, consumer, "\(last.number)")
        case .replicaFilled(let consumer, _, let token):
            record.write("merged", store, consumer, "\(token.number)")
        case .storeLost(let error): record.write("closed", store, "\(error)")
        case .delivered: break
        default: record.write("event", store, event.text)
        }
    }
}
