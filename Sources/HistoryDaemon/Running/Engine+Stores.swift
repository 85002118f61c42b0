import HistoryConfiguration
import HistoryPlugins
import Logging
import PersistentHistory

/// Starts and ends the services of stores.
extension Engine {
    /// Waits until current batches have ended, for a limited time.
    func hold(_ passes: [PassControl], within timeout: Duration = Engine.timeout) async {
        for control in passes { control.hold(by: .reload) }
        await wait(atMost: timeout) { for control in passes { await control.quiet() } }
    }

    /// Ends the services of stores. Their passes are held until then.
    func finish(_ stores: [RunningStore], within timeout: Duration) async {
        // Slow disks can make this take long: no other store waits for these.
        await hold(stores.map(\.control.passes), within: timeout)
        await withTaskGroup(of: Void.self) { group in
            for store in stores { group.addTask { await store.finish(within: timeout) } }
        }
        unended = unended.filter { !$0.value.hasEnded }
        for store in stores where !store.service.hasEnded { unended[store.name] = store.service }
    }

    /// Starts new stores.
    func begin(_ configurations: [StoreConfiguration]) {
        for configuration in configurations {
            let store = start(configuration, newControl(of: configuration))
            store.control.stopTimeout = loaded.configuration.stopTimeout
            stores.append(store)
        }
    }

    /// Removes stores that have ended.
    func forget(_ names: Set<String>) { stores.removeAll { names.contains($0.name) } }

    /// Creates the control of a new store, paused where its configuration says so or an operator's pause was
    /// kept.
    func newControl(of store: StoreConfiguration) -> StoreControl {
        let control = StoreControl()
        for consumer in keptPauses.consumers(of: store.name) {
            control.passes.hold(by: .consumer(BinaryText(consumer)))
            dependencies.logger.report(
                .paused,
                "Consumer \"\(consumer)\" of store \"\(store.name)\" stays paused: its pause was kept over restarts.",
                metadata: ["store": "\(store.name)", "consumer": "\(consumer)"])
        }
        let isKept = keptPauses.contains(.init(store: store.name))
        guard isKept || !store.autoStart else { return control }
        control.passes.hold(by: .operatorOrder)
        dependencies.status.update(store.name) { $0.setPaused(true, store.name) }
        let why = isKept ? "stays paused: its pause was kept over restarts" : "starts paused, as configured"
        dependencies.logger.report(
            .paused, "Store \"\(store.name)\" \(why).", metadata: ["store": "\(store.name)"])
        return control
    }

    func start(_ configuration: StoreConfiguration, _ control: StoreControl) -> RunningStore {
        let served = ServedStore(configuration, plugins: endpoints, starts: pluginStarts)
        let reporter = PipelineLog(
            store: configuration.name, logger: dependencies.logger, status: dependencies.status,
            deliveries: dependencies.deliveries, isOfFolder: configuration.template != nil)
        let stop = OneShotEvent()
        let up = OneShotEvent()
        let runner = StoreRunner(
            served, hooks: registry, stateFolder: dependencies.stateFolder, reporter: reporter, stop: stop,
            control: control)
        let path = configuration.path
        let watch: @Sendable () throws -> StoreSignals =
            if let interval = configuration.poll {
                { StoreSignals(from: PollingObserver(of: path, every: interval)) }
            } else {
                { [observer] in try observer.watch(path) }
            }
        let service = storeHost.start(
            StoreService(
                runner: runner, watch: watch, reporter: reporter, path: path, stop: stop, gate: up,
                predecessor: unended[configuration.name]
            ) { [endpoints] in
                // A stop waits for the calls in flight, and starts no others.
                for endpoint in endpoints.withLock({ $0 }).values { endpoint.finishCalls() }
            })
        return RunningStore(
            configuration: configuration, served: served, control: control, stop: stop, up: up, service: service
        )
    }
}
