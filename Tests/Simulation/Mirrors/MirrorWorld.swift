import CSimulation
import FoundationEssentials
import GRDB
import Glibc
import HistoryMirrors
import HistoryNATS
import PersistentHistory

/// Everything around the programs: writes to the source, carries out the script, and looks at the mirrors.
struct MirrorWorld {
    private let scenario: Scenario
    private let files: Files
    let record: Record
    private let server = ScriptedServer()
    let programs: MirrorPrograms
    var dice: Dice
    let isLimited: Bool
    var source: SimulatedSource
    private var copy: [String: ScriptedStream]?
    /// What each mirror has shown last.
    private(set) var shown: [Int: (epoch: Int64, number: Int64)] = [:]
    var cleaned: [Int: Int64] = [:]
    /// Whether the source, or what is known of the stream, was set back: then an operator may have to decide.
    private var mayNeedOperator = false
    private var hasOperated = false

    init(_ scenario: Scenario, _ files: Files, _ record: Record) throws {
        (self.scenario, self.files, self.record) = (scenario, files, record)
        dice = Dice(seed: scenario.seed &+ 1 << 32)
        isLimited = dice.isTrue(1, of: 4)
        let stream = isLimited ? "\"maxBytes\": \(dice.number(2_000...20_000))" : ""
        programs = try MirrorPrograms(files, server, record, stream)
        source = SimulatedSource(files, Dice(seed: scenario.seed &+ 1 << 33)) { [programs] in programs.signal()
        }
        let saysCompleted = dice.isTrue(1, of: 2)
        // With little of it, snapshots and groups have several parts.
        let maximumPayload = dice.isTrue(1, of: 2) ? 1 << 20 : dice.element([4_608, 6_000])
        server.content.withLock {
            ($0.saysCompleted, $0.maximumPayload) = (saysCompleted, maximumPayload)
        }
    }

    mutating func run() throws {
        for number in 0..<2 {
            try FileManager.default.createDirectory(
                atPath: files.memory(number), withIntermediateDirectories: true)
        }
        try source.begin()
        programs.start(.publisher)
        for number in 0..<2 { programs.start(.follower(number)) }
        for step in scenario.steps {
            csimulation_sleep(step.pause)
            guard case .mirrors(let action) = step.action else { continue }
            record.write("step", "\(step.number)", "\(action)")
            try perform(action)
            try look()
        }
        if try calm(), dice.isTrue(1, of: 3) { try promote() }
        if !programs.stopAll() { violation(.noStop, "A program does not stop within 60 s.") }
        for message in server.content.withLock(\.unchained) {
            violation(.order, "A publisher has appended \(message), and somebody else's is before it.")
        }
    }

    func violation(_ kind: Violation.Kind, _ text: String) {
        record.write("violation", kind.rawValue, text)
    }

    // MARK: Steps

    private mutating func perform(_ action: MirrorAction) throws {
        let names = StreamName(MirrorPrograms.name)
        func stream(_ part: MirrorAction.Part) -> String { part == .history ? names.history : names.snapshots }
        switch action {
        case .write(let count): for _ in 0..<count { try source.write() }
        case .alter: try source.alter()
        case .cleanSource: try source.clean()
        case .backUp: try source.backUp()
        case .restore: if try source.restore() { mayNeedOperator = true }
        case .trouble(let calls, let foreign, let words):
            server.content.withLock { content in
                content.trouble.calls = calls
                content.trouble.foreign = foreign
                content.trouble.words = words
            }
        case .endTrouble: server.content.withLock { $0.trouble = .init() }
        case .loseConnections: server.loseConnections()
        case .changeLeader:
            server.content.withLock { $0.consumers = [:] }
            for part in MirrorAction.Part.allCases { server.change(stream(part)) { $0.changeLeader() } }
        case .stopServer:
            server.content.withLock { $0.trouble.isDown = true }
            server.loseConnections()
        case .fillServer: server.content.withLock { $0.trouble.isFull = true }
        case .foreign(let part): server.publishForeign(to: stream(part))
        case .deleteStream(let part, let isSaid): server.deleteStream(stream(part), isSaid: isSaid)
        case .limit(let count):
            server.change(names.history) { stream in
                stream.mostMessages = count
                stream.removeOldest()
            }
        case .copyServer: copy = server.content.withLock(\.streams)
        case .restoreServer: if let copy { server.restore(copy) }
        case .restart(let program):
            guard programs.isRunning(program) else { return }
            stop(program)
            programs.start(program)
        case .stop(let program): stop(program)
        case .start(let program): programs.start(program)
        case .newEpoch: _ = operate()
        case .loseMemory:
            stop(.publisher)
            mayNeedOperator = true
            try? FileManager.default.removeItem(atPath: "\(files.memory(0))/\(MirrorPrograms.name).epoch.json")
            programs.start(.publisher)
        case .removeMirror(let number):
            for suffix in ["", "-wal", "-shm"] { unlink(files.mirror(number) + suffix) }
            (shown[number], cleaned[number]) = (nil, nil)
        case .cleanMirror(let number): try cleanMirror(number)
        }
    }

    func stop(_ program: MirrorAction.Program) {
        if !programs.stop(program) { violation(.noStop, "\(program) does not stop within 60 s.") }
    }

    /// The operator declares the store to be right.
    private func operate() -> (any Error)? {
        do {
            try programs.publisher().takeOver(newEpoch: true)
            return nil
        } catch {
            record.write("log", "operator", "\(error)")
            return error
        }
    }

    // MARK: Mirrors

    func mirror(_ number: Int, isWritten: Bool = false) throws -> DatabaseQueue? {
        guard access(files.mirror(number), F_OK) == 0 else { return nil }
        var configuration = Configuration()
        configuration.readonly = !isWritten
        configuration.busyMode = .timeout(5)
        return try DatabaseQueue(path: files.mirror(number), configuration: configuration)
    }

    private mutating func cleanMirror(_ number: Int) throws {
        guard let queue = try mirror(number, isWritten: true) else { return }
        defer { try? queue.close() }
        let part = dice.number(1...3)
        do {
            cleaned[number] = try queue.inDatabase { db in
                guard try db.tableExists("historyd_change") else { return cleaned[number] }
                var through: Int64 = 0
                try db.inTransaction(.immediate) {
                    let newest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM historyd_change") ?? 0
                    through = newest * Int64(part) / 3
                    try SimulatedSource.clean(db, through: through)
                    return .commit
                }
                return max(through, cleaned[number] ?? 0)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {}
    }

    /// Compares each mirror with the source as it was at the mirror's position.
    private mutating func look() throws {
        for number in 0..<2 { try look(at: number) }
    }

    /// - Returns: Its position.
    @discardableResult
    mutating func look(at number: Int) throws -> StreamPosition? {
        guard let queue = try mirror(number) else { return nil }
        defer { try? queue.close() }
        let tables = number == 0 ? nil : MirrorPrograms.chosen
        let found: (epoch: Int64, position: StreamPosition, store: ShownStore)?
        do {
            found = try queue.read { db in
                guard try db.tableExists("historyd_mirror"),
                    let row = try Row.fetchOne(db, sql: "SELECT epoch, position FROM historyd_mirror"),
                    let position = StreamPosition(row["position"])
                else { return nil }
                return (row["epoch"], position, try ShownStore(db, tables))
            }
        } catch let error as DatabaseError where [.SQLITE_BUSY, .SQLITE_CANTOPEN].contains(error.resultCode) {
            return nil
        }
        guard let found else { return nil }
        let now = (found.epoch, found.position.number)
        if let last = shown[number], now < (last.epoch, last.number) {
            violation(.setBack, "Mirror \(number) went from \(last) back to \(now).")
        }
        shown[number] = now
        if let wrong = source.truths[number].difference(
            found.store, at: found.position, cleaned: cleaned[number] ?? 0)
        {
            violation(.replica, "Mirror \(number) at \(found.epoch)/\(found.position.text): \(wrong).")
        }
        return found.position
    }

    // MARK: The end

    /// All is well from now on, and within some time the mirrors are what the source is.
    private mutating func calm() throws -> Bool {
        record.write("calm")
        server.content.withLock { $0.trouble = .init() }
        server.change(StreamName(MirrorPrograms.name).history) { $0.mostMessages = .max }
        stop(.secondPublisher)
        programs.start(.publisher)
        for number in 0..<2 { programs.start(.follower(number)) }
        try source.write()
        let begin = csimulation_now()
        var hasRestarted = false
        var waits = 0
        while true {
            csimulation_sleep(5_000_000_000)
            try look()
            let end = try source.end()
            if shown[0]?.number == end, shown[1]?.number == end { break }
            let time = csimulation_now() - begin
            waits = isOperatorNeeded ? waits + 1 : 0
            if waits > 24 {
                if !mayNeedOperator {
                    violation(.untrue, "An operator is asked for without a reason: \(problems).")
                }
                if hasOperated {
                    violation(.missing, "The operator's decision does not help: \(problems).")
                    return false
                }
                hasOperated = true
                if let error = operate() { violation(.missing, "The operator's decision is refused: \(error)") }
                waits = 0
            }
            if time > 900_000_000_000, !hasRestarted {
                hasRestarted = true
                if !programs.stopAll() { violation(.noStop, "A program does not stop within 60 s.") }
                programs.start(.publisher)
                for number in 0..<2 { programs.start(.follower(number)) }
            }
            if time > 1_800_000_000_000 {
                violation(.missing, "The source is at \(end), the mirrors at \(shown): \(problems).")
                return false
            }
        }
        record.write("level", "\((csimulation_now() - begin) / 1_000_000_000)")
        return true
    }

    private var reports: [WorkerReport] {
        [.publisher, .follower(0), .follower(1)].compactMap(programs.report)
    }

    private var isOperatorNeeded: Bool { reports.contains(where: \.needsOperator) }

    var problems: String {
        reports.map { "\($0.role.rawValue) \($0.path.split(separator: "/").last ?? ""): \($0.problem ?? "-")" }
            .joined(separator: "; ")
    }
}
