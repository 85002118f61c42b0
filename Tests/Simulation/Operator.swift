import CSimulation
import HistoryControl
import PersistentHistory

/// Who asks and steers the daemon at its control socket, and compares the answers with what is so.
///
/// Each question has a thread of its own, for its answer may take its time.
struct Operator: Sendable {
    let truth: Truth
    let files: Files
    let writer: Writer
    /// By a store's index.
    let ids: [String]

    private var scenario: Scenario { truth.scenario }
    private var record: Record { truth.record }

    /// Asks, and goes on before the answer is there.
    func ask(_ question: Question, store: Int) {
        record.write("asks", question.rawValue, scenario.stores[store].name)
        let status = startThread {
            csimulation_be_world()
            carryOut(question, store)
        }
        assert(status == 0)
    }

    /// What is rare.
    func ask(_ rarity: Rarity, store index: Int) {
        let store = scenario.stores[index]
        let plugin = "p\(files.isShared ? 0 : index)"
        if rarity == .cleansByForce { truth.beginsCleaningByForce(store.name) }
        let status = startThread {
            csimulation_be_world()
            switch rarity {
            case .cleansByForce:
                send(.clean(store: store.name, force: true), within: 60_000_000_000)
                record.write("cleaned by force", store.name)
                truth.endsCleaningByForce(store.name)
            case .resyncs:
                send(.resync(context: "copy", store: store.name, consumer: nil), within: 60_000_000_000)
            case .testsPlugin: send(.testPlugin(plugin), within: 60_000_000_000)
            case .asksAsOther: send(.pause(store: store.name), as: "other")
            default: send(.addHooks(persist: true), body: added(to: store.name), within: 60_000_000_000)
            }
        }
        assert(status == 0)
    }

    func added(to store: String) -> String {
        """
        {"version": 1, "plugins": [{"name": "added", "command": ["\(files.program(of: 0))"], "mode": "coprocess", \
        "hooks": [{"name": "all", "kind": "observer", "store": "\(store)"}]}]}
        """
    }

    private func carryOut(_ question: Question, _ index: Int) {
        let store = scenario.stores[index]
        let consumer = store.consumers[0].author
        switch question {
        case .status: _ = status()
        case .consumers: _ = consumers()
        case .health: _ = health()
        case .wait: wait(index)
        // What is under way ends first, which may take a slow plugin a while.
        case .pause: send(.pause(store: store.name), within: 60_000_000_000)
        case .resume: send(.resume(store: store.name))
        case .pauseOne: send(.pause(store: store.name, consumer: consumer), within: 60_000_000_000)
        case .resumeOne: send(.resume(store: store.name, consumer: consumer))
        case .moveBack: moveBack(store, consumer)
        case .run: send(.run(store: store.name, timeout: "3s"), within: 4_000_000_000)
        case .clean: send(.clean(store: store.name), within: 60_000_000_000)
        // It reads the state, and waits for its disk.
        case .planCleaning: send(.clean(store: store.name, dryRun: true), within: 60_000_000_000)
        case .deadLetters: send(.deadLetters(store: store.name))
        case .retry: retry(store.name)
        case .restartPlugin: send(.restartPlugin("p\(files.isShared ? 0 : index)"), within: 15_000_000_000)
        case .others:
            for command in [ControlCommand.plugins, .hooks, .metrics, .logLevel] { send(command) }
        case .follow: follow(index)
        }
    }

    /// Sends a command, which must be answered within a time.
    ///
    /// - Parameter user: A name for one who is not the daemon's.
    @discardableResult
    func send(
        _ command: ControlCommand, body: String = "", as user: String? = nil,
        within limit: Int64 = 1_000_000_000
    ) -> Request.Answer? {
        let (asked, suspended) = (csimulation_now(), csimulation_suspended())
        let answer = Request(command: command, path: files.control, content: body, isForeign: user != nil)
            .perform()
        let time = csimulation_now() - asked - (csimulation_suspended() - suspended)
        record.write(
            "answered", "\(time / 1000)", "\(answer?.status ?? 0)", command.target,
            answer.map { String(decoding: $0.body, as: UTF8.self) } ?? "")
        if answer != nil, time > limit {
            violation(.unanswered, "\(command.target) was answered after \(time / 1_000_000) ms")
        }
        return answer
    }

    private func violation(_ kind: Violation.Kind, _ text: String) {
        record.write("violation", kind.rawValue, text)
    }

    private func send<T: Decodable>(
        _ command: ControlCommand, as type: T.Type, within limit: Int64 = 1_000_000_000
    ) -> T? {
        send(command, within: limit)?.read(type)
    }

    /// Its hooks are called once more for whatever is there.
    private func moveBack(_ store: StoreSetup, _ consumer: String) {
        record.write("moves", store.name, consumer)
        let command = ControlCommand.moveConsumer(
            consumer, to: "oldest", store: store.name, skip: false, dryRun: false)
        send(command, within: 60_000_000_000)
    }

    func retry(_ store: String) {
        send(.retryDeadLetters(DeadLetterSelection(store: store)), within: 120_000_000_000)
    }

    // MARK: Answers that must be true

    /// Whether the daemon may not have found out yet what has become of a store.
    private func isUnsettled(_ store: String) -> Bool {
        let now = csimulation_now()
        return truth.wasJustRestored(store, at: now) || truth.wasJustMoved(store, at: now)
    }

    func status() -> DaemonReport? {
        let before = commits
        guard let report = send(.status, as: DaemonReport.self) else { return nil }
        for store in report.stores where store.state == .open && truth.wasNeverOpen(store.name) {
            violation(.untrue, "status: \(store.name) is open, and was locked all the time")
        }
        check(report.stores.flatMap(\.consumers), before)
        return report
    }

    func consumers() -> [ConsumerReport]? {
        let before = commits
        guard let list = send(.consumers(store: nil), as: ConsumerList.self) else { return nil }
        check(list.consumers, before)
        return list.consumers
    }

    func health() -> HealthReport? {
        let before = commits
        let asked = csimulation_now()
        guard let report = send(.health, as: HealthReport.self, within: 5_000_000_000) else { return nil }
        guard report.verdict == .healthy, !truth.wasJustSuspended(at: asked) else { return report }
        for store in scenario.stores {
            if truth.isStuck(store.name, at: asked) {
                violation(.untrue, "health: it is healthy, and \(store.name) was locked all the time")
            }
            let old = before[store.name, default: []].filter {
                $0.time < asked - Settings.healthyLag - 2_000_000_000
                    && truth.mustBeDelivered($0, of: store.name)
            }
            if isUnsettled(store.name) { continue }
            for consumer in store.consumers {
                if let lacks = truth.lacking(old, store, consumer, feeds: true).first {
                    violation(.untrue, "health: it is healthy, and \(lacks) is missing")
                }
            }
        }
        return report
    }

    private func wait(_ index: Int) {
        let store = scenario.stores[index]
        let before = truth.commits(store.name)
        guard let newest = before.last?.number else { return }
        for consumer in store.consumers {
            let command = ControlCommand.wait(
                consumer: consumer.author, token: "\(ids[index]):\(newest)", store: store.name, timeout: "5s")
            guard send(command, as: PositionReport.self, within: 6_000_000_000) != nil, !store.skips else {
                continue
            }
            if !isUnsettled(store.name),
                let lacks = truth.lacking(
                    before.filter { truth.mustBeDelivered($0, of: store.name) }, store, consumer, feeds: false
                ).first
            {
                violation(.untrue, "wait: \(newest) was reached, and \(lacks) is missing")
            }
        }
    }

    private var commits: [String: [Truth.Commit]] {
        Dictionary(uniqueKeysWithValues: scenario.stores.map { ($0.name, truth.commits($0.name)) })
    }

    /// Level is who has everything, and no lag has a replica that is the same.
    private func check(_ reports: [ConsumerReport], _ before: [String: [Truth.Commit]]) {
        for report in reports {
            guard let store = scenario.stores.first(where: { $0.name == report.store }),
                let consumer = store.consumers.first(where: { $0.author == report.consumer })
            else { continue }
            let commits = before[store.name, default: []]
            if isUnsettled(store.name) { continue }
            let needed = commits.filter { truth.mustBeDelivered($0, of: store.name) }
            if report.state == .level, report.deadLetters ?? 0 == 0,
                let lacks = truth.lacking(needed, store, consumer, feeds: false).first
            {
                violation(.untrue, "\(store.name) \(consumer.author) is level, and \(lacks) is missing")
            }
            guard let copy = report.contexts.first(where: { $0.kind == "replica" }), copy.problem == nil,
                copy.lag?.transactions == 0, truth.commits(store.name).count == commits.count,
                !truth.wasJustAltered(store.name, at: csimulation_now()), !truth.hasCutReplica(store.name)
            else { continue }
            let original = writer.order("rows", files.store(store.name))
            let rows = writer.order("rows", files.replica(store.name, consumer.author))
            // Who is locked out cannot compare.
            if original[0] == "ok", rows[0] == "ok", original != rows {
                violation(
                    .untrue,
                    "\(store.name) \(consumer.author) has no lag, and the replica \(rows) is not \(original)")
            }
        }
    }

    /// The transactions come in order.
    private func follow(_ index: Int) {
        let store = scenario.stores[index]
        let all = truth.commits(store.name)
        let after = all.dropFirst(all.count / 2).first.map { "\(ids[index]):\($0.number)" }
        var last: Int64 = 0
        _ = Request(command: .follow(store: store.name, after: after), path: files.control).perform(
            until: csimulation_now() + 3_000_000_000
        ) { bytes in
            for number in Tokens.numbers(in: bytes) {
                if number < last, scenario.kind != .restores {
                    violation(.order, "follow: \(number) after \(last)")
                }
                last = number
            }
            return true
        }
        record.write("followed", store.name, "\(last)")
    }
}

/// The tokens in lines of JSON.
enum Tokens {
    static func all(in bytes: [UInt8], _ member: String = "token") -> [HistoryToken] {
        String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { line in
            guard let start = line.firstRange(of: "\"\(member)\":\"")?.upperBound else { return nil }
            return HistoryToken(String(line.suffix(from: start).prefix { $0 != "\"" }))
        }
    }

    static func numbers(in bytes: [UInt8]) -> [Int64] { all(in: bytes).map(\.number) }
}
