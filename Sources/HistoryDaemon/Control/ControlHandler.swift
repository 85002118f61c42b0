import Glibc
import HistoryConfiguration
import HistoryControl
import Logging
import NIOHTTP1
import PersistentHistory

/// Handles the requests of the control socket.
struct ControlHandler: Sendable {
    let engine: Engine
    let jobs: SerialJobs
    let startedAt: HistoryTimestamp
    let repeatedLines = RepeatedLines()
    let lastReload = Locked<ReloadAttempt?>(nil)
    /// When the configuration in force was read.
    let configuredAt = Locked(HistoryTimestamp.now)

    var dependencies: Engine.Dependencies { engine.dependencies }
    var logger: Logger { dependencies.logger }

    func answer(_ request: RequestReader.Request, from peer: Peer, _ response: ControlResponse) async {
        do {
            do {
                let (command, body) = try request.get()
                try admit(command, peer)
                try await carryOut(command, body, peer, response)
            } catch {
                if Task.isCancelled { return }
                try await response.send(ControlError(error))
            }
        } catch {
            logger.debug("An answer could not be sent.", metadata: ["error": "\(error)"])
        }
    }

    /// Serves the control socket.
    ///
    /// - Parameter listening: Signaled when the socket accepts connections.
    func serve(_ listener: ControlListener, listening: OneShotEvent) async throws {
        defer { listener.remove() }
        let slots = ConnectionSlots()
        try await HTTPServer([listener.descriptor], logger: logger).run {
            listening.signal()
        } serve: { channel, connection in
            try await ControlConnection(channel: channel, handler: self, slots: slots).serve(connection)
        }
    }

    /// Serves the metrics, and nothing else, over TCP on sockets that the service manager created: any client
    /// that reaches the port may read them.
    func serveMetrics(on descriptors: [Int32]) async throws {
        try await HTTPServer(descriptors, logger: logger).run { query in
            switch query.line {
            case "GET /metrics", "GET /v1/metrics": HTTPAnswer(type: MetricsText.contentType, await metrics())
            case let line where line.hasPrefix("GET "):
                HTTPAnswer(status: 404, "Metrics are at /metrics.\n")
            default: HTTPAnswer(status: 405, "Metrics are read with GET.\n")
            }
        }
    }

    private func admit(_ command: ControlCommand, _ peer: Peer) throws(ControlError) {
        do {
            try peer.check(command, daemon: geteuid())
        } catch {
            repeatedLines.log("refused", by: peer) { more in
                logger.report(
                    .controlRefused,
                    "Refused \(command.method.rawValue) \(command.target.printable) of \(peer): only root and the daemon's user may do that\(more)."
                )
            }
            throw error
        }
    }

    private func carryOut(
        _ command: ControlCommand, _ body: [UInt8], _ peer: Peer, _ response: ControlResponse
    ) async throws {
        let answer: any Encodable
        switch command {
        case .metrics: return try await response.send(await metrics(), type: MetricsText.contentType)
        case .addHooks(let before, let persist, let file):
            let change = try await addHooks(body, before: before, persist: persist, file: file, peer)
            return try await response.send(change, status: .created)
        case .follow(let store, let consumer, let after):
            return try await follow(store, consumer, after, peer, response)
        case .feed(let request): return try await feed(request, peer, response)
        case .status: answer = await status()
        case .health: answer = await health()
        case .doctor(let store): answer = try await examine(store)
        case .consumers(let store): answer = try await consumers(of: store)
        case .moveConsumer(let consumer, let to, let store, let skip, let dryRun):
            answer = try await move(consumer, to: to, in: store, skips: skip, dryRun: dryRun, peer)
        case .hooks: answer = await hooks()
        case .removeHooks(let selection): answer = try await remove(selection, peer)
        case .plugins: answer = await pluginList()
        case .restartPlugin(let name): answer = try await restartPlugin(name, peer)
        case .testPlugin(let name, let hook, let token, let dryRun):
            answer = try await testPlugin(name, hook, token, dryRun: dryRun, peer)
        case .reload: answer = try await reload()
        case .pause(let store, let consumer, let keep):
            answer = try await pause(store, consumer: consumer, keep: keep, peer)
        case .resume(let store, let consumer): answer = try await resume(store, consumer: consumer, peer)
        case .run(let store, let timeout): answer = try await run(store, timeout)
        case .wait(let consumer, let token, let store, let timeout):
            answer = try await wait(for: consumer, token, in: store, timeout)
        case .acknowledge(let request, let token): answer = try await acknowledge(request, token, peer)
        case .clean(let store, let dryRun, let force):
            answer = try await clean(store, dryRun: dryRun, force: force, peer)
        case .resync(let context, let store, let consumer):
            answer = try await resync(context, in: store, of: consumer, peer)
        case .deadLetters(let store): answer = try await deadLetters(of: store, for: peer)
        case .retryDeadLetters(let selection): answer = try await retry(selection)
        case .dropDeadLetters(let selection): answer = try await drop(selection, peer)
        case .logLevel: answer = LogLevelReport(logLevel: dependencies.level.level.rawValue)
        case .setLogLevel(let level): answer = try setLogLevel(level, peer)
        }
        try await response.send(answer)
    }

    // MARK: The daemon

    func reload() async throws -> ReloadReport {
        try await jobs.perform { [engine, lastReload, configuredAt] in
            let result: Result<ReloadReport, any Error>
            do {
                result = .success(try await engine.reload())
            } catch {
                result = .failure(error)
            }
            var problems: [String] = []
            if case .failure(let error) = result { problems = ControlError(error).problems ?? ["\(error)"] }
            let attempt = ReloadAttempt(at: HistoryTimestamp.now.description, problems: problems)
            lastReload.withLock { $0 = attempt }
            if problems.isEmpty { configuredAt.withLock { $0 = .now } }
            return try result.get()
        }
    }

    private func setLogLevel(_ name: String, _ peer: Peer) throws(ControlError) -> LogLevelReport {
        guard let level = LogLevel(rawValue: name) else {
            let known = LogLevel.allCases.map(\.rawValue).joined(separator: ", ")
            throw ControlError(.badRequest, "\"\(name)\" is not a log level. Log levels: \(known).")
        }
        // Logged at whichever of the two levels lets it through.
        if level == .off { logger.notice("The log is off now, by \(peer).") }
        dependencies.level.level = level
        if level != .off { logger.notice("The log level is \(name) now, by \(peer).") }
        return LogLevelReport(logLevel: name)
    }

    // MARK: Names

    /// The store with a name, the stores that match a pattern, or all stores.
    func stores(_ name: String?) async throws(ControlError) -> [RunningStore] {
        let stores = await engine.stores
        guard let name else { return stores }
        if let store = stores.first(where: { $0.name == name }) { return [store] }
        let fitting = NamePattern.isPattern(name) ? stores.filter { NamePattern.matches(name, $0.name) } : []
        guard fitting.isEmpty else { return fitting }
        let known = stores.filter { $0.configuration.template == nil }.map(\.name)
        let templates = await engine.folders.map(\.template.name)
        throw ControlError(
            .unknownStore, "There is no store \"\(name)\". Stores: \((known + templates).quotedList).")
    }

    /// The stores that have such a consumer, at least one.
    func stores(_ name: String?, with consumer: String) async throws(ControlError) -> [RunningStore] {
        let stores = try await stores(name)
        let fitting = stores.filter { store in store.served.consumers.contains { $0.author == consumer } }
        if fitting.isEmpty {
            let known = Set(stores.flatMap { $0.served.consumers.map(\.author) }).sorted()
            let onlyWrites = stores.contains { $0.served.rule.authors.contains(BinaryText(consumer)) }
            let batch = onlyWrites ? " That author only writes (\"batch\")." : ""
            throw ControlError(
                .unknownConsumer,
                "There is no consumer \"\(consumer)\".\(batch) Consumers: \(known.quotedList).")
        }
        return fitting
    }

    /// The one store that has such a consumer.
    func store(_ name: String?, with consumer: String) async throws(ControlError) -> RunningStore {
        let fitting = try await stores(name, with: consumer)
        guard let store = fitting.first, fitting.count == 1 else {
            throw ControlError(
                .ambiguous,
                "Stores \(fitting.map(\.name).quotedList) have a consumer \"\(consumer)\". Name the store."
            )
        }
        return store
    }
}

extension [String] {
    /// `"a", "b"`, safe for a terminal, or "none".
    var quotedList: String { isEmpty ? "none" : map(\.printable).quoted }
}

extension ControlError {
    /// The control error for an error of the library.
    init(_ error: any Error) {
        switch error {
        case let error as ControlError: self = error
        case let error as HistoryError: self.init(Code(error.code), "\(error)")
        case is CancellationError: self.init(.stopping, "The daemon is stopping.")
        default: self.init(.failed, "\(error)")
        }
    }
}

extension ControlError.Code {
    fileprivate init(_ code: HistoryError.Code) {
        switch code {
        case .tokenInvalid: self = .tokenInvalid
        case .tokenForeign: self = .tokenForeign
        case .tokenAhead: self = .tokenAhead
        case .tokenNotSent: self = .tokenNotSent
        case .tokenExpired: self = .tokenExpired
        case .unknownContext: self = .unknownContext
        case .feedInUse: self = .feedInUse
        case .storeNotOpen, .storeMissing, .storeBusy, .storeCorrupt, .storeTooNew, .storeUnreadable,
            .notTracked:
            self = .storeNotOpen
        case .storeFull, .stateFull, .stateReadOnly: self = .noSpace
        default: self = .failed
        }
    }
}
