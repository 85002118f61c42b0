import CSimulation
import PersistentHistory

/// Everything around the daemon: carries out the script, and says in the end whether all have what they should.
///
/// It runs on a thread of its own, in turns with the daemon's.
struct World: Sendable {
    let daemon: Daemon
    let writer: Writer
    /// By a store's index.
    let ids: [String]

    private var scenario: Scenario { daemon.scenario }
    private var record: Record { daemon.record }
    private var files: Files { daemon.files }

    /// How long all may take in the end.
    private static let limit: Int64 = 120_000_000_000

    /// What is done before the daemon is there.
    func prepare() {
        var steps = position == 0 ? scenario.stepsBefore : 0
        if position < scenario.steps.count, case .stayDown(let more) = scenario.steps[position].action {
            csimulation_take_step()
            steps += more
        }
        for _ in 0..<steps {
            guard position < scenario.steps.count, scenario.steps[position].isOfOthers else { return }
            takeStep()
        }
    }

    func run() {
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
    private func stop() {
        record.write("stop")
        daemon.stop.signal()
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
            record.write("held", name, writer.order("hold", files.store(name), "\(isExclusive)")[0])
        case .release(let store): release(store)
        case .plugin(let store, let manners):
            daemon.plugins[store].behave(manners)
            record.write("plugin", scenario.stores[store].name, manners.rawValue)
        case .disk(let store, let part, let trouble): disturb(store, part, trouble)
        case .repair(let store, let part): repair(store, part)
        case .alter(let store):
            let name = scenario.stores[store].name
            record.write("altered", name, writer.order("alter", files.store(name))[0])
        case .read(let store, let part): _ = writer.order("read", path(store, part))
        case .endRead(let store, let part): _ = writer.order("endRead", path(store, part))
        case .kill(let points): csimulation_kill_after(UInt64(points))
        case .cutPower(let points):
            record.write("power")
            csimulation_kill_after(UInt64(points))
        case .restart: stop()
        case .stayDown: break
        }
    }

    private func path(_ store: Int, _ part: Part) -> String {
        let setup = scenario.stores[store]
        return switch part {
        case .store: files.store(setup.name)
        case .state: "\(files.state)/\(ids[store]).sqlite"
        case .replica: files.replica(setup.name, setup.consumers[0].author)
        }
    }

    private func commit(_ store: Int, _ author: String, _ change: Change) {
        let name = scenario.stores[store].name
        note(name, author, change, writer.order("commit", files.store(name), author, change.rawValue))
    }

    private func note(_ store: String, _ author: String, _ change: Change, _ answer: [String]) {
        if answer[0] == "ok" {
            record.write("commit", store, author, change.rawValue, answer[1])
            Commits.shared.add(store, author, change, Int64(answer[1]) ?? 0)
        } else {
            record.write("uncommitted", [store, author].joined(separator: " "), answer.joined(separator: " "))
        }
    }

    private func release(_ store: Int) {
        let name = scenario.stores[store].name
        record.write("released", name, writer.order("release", files.store(name))[0])
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

    private func repair(_ store: Int, _ part: Part) {
        let index = Part.allCases.firstIndex(of: part) ?? 0
        csimulation_no_rule(Int32(store * Part.allCases.count + index))
        record.write("repaired", scenario.stores[store].name, part.rawValue)
    }

    /// Nothing more goes wrong.
    private func calm() {
        csimulation_kill_after(0)
        for (index, store) in scenario.stores.enumerated() {
            release(index)
            for part in Part.allCases {
                repair(index, part)
                if part != .store { _ = writer.order("endRead", path(index, part)) }
            }
            daemon.plugins[index].behave(.well)
            record.write("plugin", store.name, Manners.well.rawValue)
        }
    }

    private func waitUntilLevel() -> Bool {
        let end = csimulation_now() + Self.limit
        while csimulation_now() < end {
            if missing.isEmpty { return true }
            csimulation_sleep(100_000_000)
        }
        for item in missing { record.write("missing", item) }
        return false
    }

    /// Where a store and its consumers are; nil while it is not open. This thread is the world's own, and may wait.
    private func positions(_ index: Int) -> StoreControl.Positions? {
        let answer = Locked<Result<StoreControl.Positions, any Error>?>(nil)
        let control = daemon.controls[index]
        Task {
            let result: Result<StoreControl.Positions, any Error>
            do { result = .success(try await control.positions()) } catch { result = .failure(error) }
            answer.withLock { $0 = result }
        }
        while true {
            if let answer = answer.withLock(\.self) { return try? answer.get() }
            csimulation_sleep(1_000_000)
        }
    }

    /// What hooks have not had, and consumers that are not at the end.
    private var missing: [String] {
        var missing: [String] = []
        for (index, store) in scenario.stores.enumerated() {
            for consumer in store.consumers {
                let feed = consumer.hasFeed ? [HookSetup(name: "feed", entity: nil)] : []
                for hook in consumer.hooks + feed {
                    let had = daemon.deliveries.have(store.name, consumer.author, hook.name)
                    for commit in Commits.shared.all(store.name)
                    where commit.concerns(hook, of: consumer.author) {
                        if !had.contains(commit.number) {
                            missing.append("\(store.name) \(consumer.author) \(hook.name) \(commit.number)")
                        }
                    }
                }
            }
            guard let positions = positions(index) else {
                missing.append("\(store.name) is not open")
                continue
            }
            for (consumer, checkpoint) in positions.cursors.sorted(by: { $0.key < $1.key })
            where checkpoint.position < positions.newest.number {
                missing.append(
                    "\(store.name) \(consumer) is at \(checkpoint.position) of \(positions.newest.number)")
            }
        }
        return missing
    }

    /// A context that has failed is tried again after a while.
    private func compare(_ store: StoreSetup) {
        let original = writer.order("rows", files.store(store.name))
        for consumer in store.consumers where consumer.hasReplica {
            var copy = writer.order("rows", files.replica(store.name, consumer.author))
            let end = csimulation_now() + Self.limit
            while copy != original, csimulation_now() < end {
                csimulation_sleep(500_000_000)
                copy = writer.order("rows", files.replica(store.name, consumer.author))
            }
            record.write(
                "replica", store.name, consumer.author,
                original == copy ? "equal" : "other: \(copy) \(original)")
        }
    }
}

/// What was committed, in this life and before.
final class Commits: Sendable {
    struct Commit: Sendable {
        let author: String
        let change: Change
        let number: Int64

        func concerns(_ hook: HookSetup, of consumer: String) -> Bool {
            guard author != consumer else { return false }
            guard let entity = hook.entity else { return true }
            return switch change {
            case .insertItem: entity == "item"
            case .both: true
            case .insertPerson, .updatePerson, .deletePerson, .large: entity == "person"
            }
        }
    }

    static let shared = Commits()
    private let commits = Locked<[String: [Commit]]>([:])

    func add(_ store: String, _ author: String, _ change: Change, _ number: Int64) {
        commits.withLock {
            $0[store, default: []].append(Commit(author: author, change: change, number: number))
        }
    }

    func all(_ store: String) -> [Commit] { commits.withLock { $0[store] ?? [] } }
}
