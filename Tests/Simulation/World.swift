import CSimulation
import Glibc
import HistoryControl
import PersistentHistory

/// Everything around the daemon: carries out the script, and says in the end whether all have what they should.
///
/// It runs on threads of its own, in turns with the daemon's.
struct World: Sendable {
    let truth: Truth
    let files: Files
    let writer: Writer
    /// By a store's index.
    let ids: [String]
    let plugins: PluginProcesses
    let serviceManager: ServiceManager
    let requests: Operator
    private let settings = Locked(Settings())
    private let begunAt = csimulation_now()

    var scenario: Scenario { truth.scenario }
    var record: Record { truth.record }

    init(_ truth: Truth, _ files: Files, _ writer: Writer, _ ids: [String]) {
        self.truth = truth
        self.files = files
        self.writer = writer
        self.ids = ids
        plugins = PluginProcesses(truth, files, writer)
        serviceManager = ServiceManager(files, truth.record)
        requests = Operator(truth: truth, files: files, writer: writer, ids: ids)
    }

    /// How long all may take in the end.
    private static let limit: Int64 = 120_000_000_000

    /// What is done before the daemon is there.
    func prepare() throws {
        try settings.withLock(\.self).write(scenario, files)
        Journal.open(record)
        plugins.takeOver()
        var steps = position == 0 ? scenario.stepsBefore : 0
        if position < scenario.steps.count, case .stayDown(let more) = scenario.steps[position].action {
            csimulation_take_step()
            steps += more
        }
        for _ in 0..<steps {
            guard position < scenario.steps.count, scenario.steps[position].isOfOthers else { break }
            takeStep()
        }
    }

    /// Starts the world's threads.
    func start() {
        let parts: [@Sendable () -> Void] = [
            { serviceManager.run { _ = requests.status() } }, run,
        ]
        for part in parts { if startThread(part) != 0 { csimulation_exit(1) } }
        for store in scenario.stores {
            for consumer in store.consumers where consumer.hasFeed {
                FeedReader(requests: requests, store: store.name, consumer: consumer.author).start()
            }
        }
    }

    private func run() {
        csimulation_be_world()
        while position < scenario.steps.count {
            csimulation_sleep(scenario.steps[position].pause)
            takeStep()
        }
        // A kill that was ordered last has its time, too.
        csimulation_sleep(1_000_000_000)
        calm()
        let isLevel = waitUntilLevel()
        record.write("calm", isLevel ? "level" : "lagging")
        for store in scenario.stores { compare(store) }
        stop()
    }

    /// Within a time it must have ended, once no disk hangs for ever.
    func stop() {
        record.write("stop")
        csimulation_signal(SIGTERM)
        csimulation_sleep(10_000_000_000)
        for rule in 0..<Int32(scenario.stores.count * Part.allCases.count) { csimulation_no_rule(rule) }
        csimulation_sleep(50_000_000_000)
        csimulation_exit(csimulation_not_stopped)
    }

    private var position: Int { Int(csimulation_position()) }

    private func takeStep() {
        let step = scenario.steps[position]
        // First, for the step may be the last of this life.
        csimulation_take_step()
        record.write("step", "\(step.number)", step.description)
        perform(step.action)
    }

    private func perform(_ action: Step.Action) {
        switch action {
        case .commit(let store, let author, let change, let times):
            for _ in 0..<times { commit(store, author, change) }
        case .torn(let store, let write):
            let name = scenario.stores[store].name
            note(name, "Torn", .both, writer.order("tear", files.store(name), "\(write)"))
        case .hold(let store, let isExclusive):
            let name = scenario.stores[store].name
            let answer = writer.order("hold", files.store(name), "\(isExclusive)")[0]
            let isLocked = answer == "ok" && isExclusive
            record.write("held", name, isLocked ? "exclusively" : answer)
            if isLocked { truth.isLocked(name) }
        case .release(let store): release(store)
        case .plugin(let store, let manners):
            plugins.behave(manners, plugin: "p\(store)")
            record.write("plugin", scenario.stores[store].name, manners.rawValue)
        case .disk(let store, let part, let trouble): disturb(store, part, trouble)
        case .repair(let store, let part): repair(store, part)
        case .alter(let store):
            let name = scenario.stores[store].name
            record.write("altered", name, writer.order("alter", files.store(name))[0])
            truth.isAltered(name, at: csimulation_now())
        case .schema(let store, let change): alter(store, change)
        case .backUp(let store):
            let name = scenario.stores[store].name
            record.write("backed up", name, writer.order("backUp", files.store(name)).joined(separator: " "))
        case .restore(let store, let inPlace): restore(store, inPlace: inPlace)
        case .remove(let store, let part, let sides): remove(store, part, sides)
        case .read(let store, let part): _ = writer.order("read", path(store, part))
        case .endRead(let store, let part): _ = writer.order("endRead", path(store, part))
        case .machine(let machine): trouble(machine)
        case .rare(let store, let rarity): perform(rarity, on: store)
        case .leave(let store): leave(store)
        case .mirrors: break
        case .come(let store): come(store)
        case .kill(let points): csimulation_kill_after(UInt64(points))
        case .cutPower(let points):
            record.write("power")
            csimulation_kill_after(UInt64(points))
        case .restart: stop()
        case .stayDown: break
        case .ask(let question, let store): requests.ask(question, store: store)
        case .reload(let change, let store, let bySignal): reload(change, store, bySignal: bySignal)
        }
    }

    /// Nobody but the daemon has them open, and nothing is in the store's log alone.
    private func remove(_ store: Int, _ part: Part, _ sides: Sides) {
        let path = path(store, part)
        let answer = part == .store ? writer.order("letGo", path)[0] : "ok"
        if answer == "ok" { for suffix in sides.suffixes { unlink(path + suffix) } }
        if part == .replica { truth.replicaIsCut(scenario.stores[store].name) }
        record.write("removed", scenario.stores[store].name, part.rawValue, sides.rawValue, answer)
    }

    private func alter(_ store: Int, _ change: SchemaChange) {
        let name = scenario.stores[store].name
        let answer = writer.order(change.rawValue, files.store(name)).joined(separator: " ")
        record.write("schema", name, change.rawValue, answer)
        truth.isAltered(name, by: change, answer == "ok", at: csimulation_now())
    }

    private func restore(_ store: Int, inPlace: Bool) {
        let name = scenario.stores[store].name
        // What is said of it from now on may be said of what it was.
        truth.isBeingRestored(name, at: csimulation_now())
        let answer = writer.order("restore", files.store(name), "\(inPlace)")
        guard answer[0] == "ok", let newest = Int64(answer[1]) else {
            return record.write("not restored", name, answer.joined(separator: " "))
        }
        record.write("restored", name, "\(newest)")
        truth.isRestored(name, to: newest, at: csimulation_now())
    }

    /// As the page Tenants says it: while no program writes, and the log first.
    private func leave(_ store: Int) {
        let name = scenario.stores[store].name
        guard !truth.isAway(name) else { return }
        let answer = writer.order("close", files.store(name))[0]
        guard answer == "ok" else { return record.write("stays", name, answer) }
        // A daemon that opens the store for the first time in between cannot know.
        let now = csimulation_now()
        let isKnown = now > begunAt + 5_000_000_000 && !truth.wasJustMoved(name, at: now)
        let isReloading = scenario.steps[..<position].suffix(10).contains {
            if case .reload = $0.action { true } else { false }
        }
        move(files.store(name), to: files.away(name), takingLong: isKnown && !isReloading)
        record.write("left", name)
        truth.moves(name, away: true, at: csimulation_now())
    }

    private func come(_ store: Int) {
        let name = scenario.stores[store].name
        guard truth.isAway(name) else { return }
        move(files.away(name), to: files.store(name), takingLong: true)
        record.write("came", name)
        truth.moves(name, away: false, at: csimulation_now())
    }

    private func move(_ path: String, to other: String, takingLong: Bool) {
        csimulation_spare(true)
        defer { csimulation_spare(false) }
        rename(path + "-wal", other + "-wal")
        if takingLong { csimulation_sleep(Int64(position % 3) * 500_000_000) }
        rename(path, other)
    }

    func path(_ store: Int, _ part: Part) -> String {
        let setup = scenario.stores[store]
        return switch part {
        case .store: files.store(setup.name)
        case .state: "\(files.state)/\(ids[store]).sqlite"
        case .replica: files.replica(setup.name, setup.consumers[0].author)
        }
    }

    /// - Returns: Whether it was committed.
    @discardableResult
    private func commit(_ store: Int, _ author: String, _ change: Change) -> Bool {
        let name = scenario.stores[store].name
        guard !truth.isAway(name) else { return false }
        let answer = writer.order("commit", files.store(name), author, change.rawValue)
        note(name, author, change, answer)
        return answer[0] == "ok"
    }

    private func note(_ store: String, _ author: String, _ change: Change, _ answer: [String]) {
        if answer[0] == "ok" {
            record.write("commit", store, author, change.rawValue, answer[1])
            truth.add(
                Truth.Commit(author: author, change: change, number: Int64(answer[1]) ?? 0, time: record.now),
                to: store)
        } else {
            record.write("uncommitted", [store, author].joined(separator: " "), answer.joined(separator: " "))
        }
    }

    private func release(_ store: Int) {
        let name = scenario.stores[store].name
        record.write("released", name, writer.order("release", files.store(name))[0])
        truth.isReleased(name)
    }

    private func reload(_ change: Reconfiguration, _ store: Int, bySignal: Bool) {
        let new = settings.withLock { settings in
            if change == .plugin || change == .both { settings.changedPlugins[store, default: 0] += 1 }
            if change == .store || change == .both { settings.changedStores[store, default: 0] += 1 }
            return settings
        }
        // With such a one it does not start.
        write(new, isBroken: change == .broken && serviceManager.sawReady)
        // Before that, the signal would end it.
        if bySignal, serviceManager.sawReady {
            csimulation_signal(SIGHUP)
            return
        }
        let status = startThread {
            csimulation_be_world()
            // A store whose disk hangs does not end, and the reload waits for that.
            requests.send(.reload, within: scenario.kind == .isolation ? .max : 30_000_000_000)
        }
        assert(status == 0)
    }

    private func write(_ settings: Settings, isBroken: Bool) {
        var settings = settings
        settings.isBroken = isBroken
        do { try settings.write(scenario, files) } catch { record.write("failed", "\(error)") }
    }

    private func disturb(_ store: Int, _ part: Part, _ trouble: Trouble) {
        let name = scenario.stores[store].name
        let prefix = files.prefix(of: part, of: name, id: ids[store])
        let (sync, write) = (Int32(csimulation_at_sync), Int32(csimulation_at_write))
        let rule = Int32(store * Part.allCases.count + (Part.allCases.firstIndex(of: part) ?? 0))
        switch trouble {
        case .slow: csimulation_rule(rule, prefix, sync, 700_000_000, 0, 256)
        case .hangs: csimulation_rule(rule, prefix, sync, -1, 0, 256)
        case .full: csimulation_rule(rule, prefix, write, 0, 28, 128)
        case .broken: csimulation_rule(rule, prefix, sync | write, 0, 5, 128)
        }
        record.write("disk", name, part.rawValue, trouble.rawValue)
    }

    private func trouble(_ machine: Machine) {
        let (second, hour): (Int64, Int64) = (1_000_000_000, 3_600_000_000_000)
        switch machine {
        // A daemon that begins does without neither.
        case .refusesThreads where !serviceManager.sawReady, .refusesDescriptors where !serviceManager.sawReady:
            break
        case .refusesThreads: csimulation_refuse_threads(192)
        // Others go on as they did before there were seeds of this.
        case .refusesDescriptors where scenario.seed % 3 == 1: csimulation_refuse_memory(64)
        case .refusesDescriptors: csimulation_refuse_descriptors(64)
        case .refusesNothing:
            csimulation_refuse_threads(0)
            csimulation_refuse_descriptors(0)
        case .setsClockBack: csimulation_step_clock(-30 * hour)
        case .setsClockAhead: csimulation_step_clock(30 * hour)
        case .isSuspended:
            csimulation_suspend(Int64(2 + csimulation_random() % 20) * second)
            truth.isSuspended(until: csimulation_now())
        case .losesEvents: csimulation_lose_events()
        }
        record.write("machine", machine.rawValue)
    }

    private func repair(_ store: Int, _ part: Part) {
        let index = Part.allCases.firstIndex(of: part) ?? 0
        csimulation_no_rule(Int32(store * Part.allCases.count + index))
        record.write("repaired", scenario.stores[store].name, part.rawValue)
    }

    /// Nothing more goes wrong.
    private func calm() {
        csimulation_kill_after(0)
        trouble(.refusesNothing)
        if scenario.kind == .upkeep { remedyRarities() }
        for (index, store) in scenario.stores.enumerated() {
            release(index)
            come(index)
            if scenario.kind == .applications { alter(index, .endsMigration) }
            for part in Part.allCases {
                repair(index, part)
                if part != .store { _ = writer.order("endRead", path(index, part)) }
            }
            plugins.behave(.well, plugin: "p\(index)")
            record.write("plugin", store.name, Manners.well.rawValue)
        }
        requests.send(.resume(store: nil))
        for store in scenario.stores {
            for consumer in store.consumers {
                requests.send(.resume(store: store.name, consumer: consumer.author))
            }
        }
        if scenario.kind == .files { touchStores() }
        // It recovers by itself: a reload would hide it if it did not.
        _ = waitUntilLevel(beforeReload: true)
        write(settings.withLock(\.self), isBroken: false)
        requests.send(.reload, within: Self.limit)
        if scenario.kind == .files { touchStores() }
    }

    /// What was removed beside a replica is noticed when it is written.
    private func touchStores() {
        for store in scenario.stores.indices {
            var attempts = 0
            while !commit(store, "Writer", .both), attempts < 50 {
                attempts += 1
                csimulation_sleep(100_000_000)
            }
        }
    }

    private func waitUntilLevel(beforeReload: Bool = false) -> Bool {
        let end = csimulation_now() + Self.limit
        var missing: [String] = []
        while csimulation_now() < end {
            // That is an operator's to do.
            for store in scenario.stores where store.skips { requests.retry(store.name) }
            missing = truth.missing
            if missing.isEmpty { missing = notWell(beforeReload: beforeReload) }
            if missing.isEmpty { return true }
            csimulation_sleep(300_000_000)
        }
        for item in missing { record.write("missing", item) }
        return false
    }

    /// What the daemon says that is not as it should be in the end. What it refused to read is the operator's to put right.
    private func notWell(beforeReload: Bool) -> [String] {
        guard let status = requests.status(), let health = requests.health() else {
            return ["It does not answer."]
        }
        // One that rests is opened again as soon as something is committed.
        let stores = status.stores.filter { ![.open, .resting].contains($0.state) }
        let consumers = status.stores.flatMap(\.consumers).filter { $0.state != .level }
        let reasons = health.reasons.filter { !beforeReload || $0.cause != .reloadRefused }
        return stores.map { "\($0.name) is \($0.state)" }
            + consumers.map { "\($0.store) \($0.consumer) is \($0.state)" }
            + reasons.map { "It is \(health.verdict): \($0.message)" }
    }

    /// A context that has failed is tried again after a while.
    private func compare(_ store: StoreSetup) {
        var original = writer.order("rows", files.store(store.name))
        for consumer in store.consumers where consumer.hasReplica {
            var copy = writer.order("rows", files.replica(store.name, consumer.author))
            let end = csimulation_now() + Self.limit
            while copy != original, csimulation_now() < end {
                csimulation_sleep(500_000_000)
                // A reader that the daemon's transaction is in the way of has waited in vain: meanwhile nothing else ran.
                if original[0] != "ok" { original = writer.order("rows", files.store(store.name)) }
                copy = writer.order("rows", files.replica(store.name, consumer.author))
            }
            record.write(
                "replica", store.name, consumer.author,
                original == copy ? "equal" : "other: \(copy) \(original)")
        }
        for consumer in store.consumers where consumer.hasIndex {
            let rows = PluginIndex.rows(of: original)
            let end = csimulation_now() + Self.limit
            while plugins.index(store.name, consumer.author).rows != rows, csimulation_now() < end {
                csimulation_sleep(500_000_000)
            }
            let found = plugins.index(store.name, consumer.author).rows
            record.write(
                "replica", store.name, consumer.author,
                found == rows ? "equal" : "other index: \(found.sorted { $0.key < $1.key }) \(original)")
        }
    }
}
