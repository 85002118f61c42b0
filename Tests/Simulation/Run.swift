import CSimulation
import FoundationEssentials
import GRDB
import Glibc
import PersistentHistory

/// One run of a scenario: a folder, a writer, and the daemon's lives, one after the other.
struct Run {
    let scenario: Scenario
    let files: Files

    struct Outcome {
        let violations: [Violation]
        let reached: Reached
        let record: String
    }

    /// The stores as they are at the beginning: copied, for tracking takes its time.
    static func prepareTemplates(in folder: String) throws {
        for store in 0..<3 {
            for usesWAL in [true, false] {
                let path = template(store, usesWAL, in: folder)
                try {
                    let queue = try DatabaseQueue(path: path)
                    try queue.writeWithoutTransaction { db in
                        try db.execute(sql: "PRAGMA journal_mode = \(usesWAL ? "WAL" : "DELETE")")
                        try db.execute(
                            sql: """
                                CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, age INTEGER);
                                CREATE TABLE item (code TEXT PRIMARY KEY, price REAL);
                                """)
                    }
                    try queue.close()
                }()
                try Tracking.track(path, ["person": nil, "item": nil])
                let reader = try DatabaseQueue(path: path)
                let id = try reader.read { db in
                    try String.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'id'") ?? ""
                }
                try reader.close()
                try id.write(toFile: path + ".id", atomically: false, encoding: .utf8)
            }
        }
    }

    static func template(_ store: Int, _ usesWAL: Bool, in folder: String) -> String {
        "\(folder)/template-\(store)-\(usesWAL ? "wal" : "delete").sqlite"
    }

    /// - Returns: The stores' ids.
    private func lay(_ templates: String) throws -> [String] {
        let manager = FileManager.default
        try? manager.removeItem(atPath: files.folder)
        for folder in [files.state, files.synced] {
            try manager.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
        return try scenario.stores.enumerated().map { index, store in
            try manager.createDirectory(atPath: files.folder(of: store.name), withIntermediateDirectories: true)
            try manager.createDirectory(atPath: files.replicas(store.name), withIntermediateDirectories: true)
            let template = Self.template(index, store.usesWAL, in: templates)
            try manager.copyItem(atPath: template, toPath: files.store(store.name))
            return try String(contentsOfFile: template + ".id", encoding: .utf8)
        }
    }

    func perform(templates: String) throws -> Outcome {
        let ids = try lay(templates)
        guard let shared = csimulation_share() else { throw SystemError(call: "mmap", number: errno) }
        defer { csimulation_unshare(shared) }
        shared.pointee.random = scenario.seed
        let descriptor = open(files.record, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        var (orders, answers): ([Int32], [Int32]) = ([0, 0], [0, 0])
        guard pipe(&orders) == 0, pipe(&answers) == 0 else { throw SystemError(call: "pipe", number: errno) }
        let writing = csimulation_fork()
        if writing == 0 {
            csimulation_take_clock(shared)
            close(orders[1])
            close(answers[0])
            Writer.obey(orders: orders[0], answers: answers[1])
            csimulation_exit(0)
        }
        close(orders[0])
        close(answers[1])
        let writer = Writer(orders: orders[1], answers: answers[0])
        var violations = live(shared, descriptor, writer, ids)
        close(orders[1])
        close(answers[0])
        var signal: Int32 = 0
        _ = csimulation_wait(writing, &signal)
        let record = try String(contentsOfFile: files.record, encoding: .utf8)
        violations += Checks(scenario, record).violations
        return Outcome(violations: violations, reached: Reached(scenario, record), record: record)
    }

    /// One life after the other, until one comes to the script's end.
    private func live(
        _ shared: UnsafeMutablePointer<csimulation_shared>, _ descriptor: Int32, _ writer: Writer,
        _ ids: [String]
    ) -> [Violation] {
        var life = 0
        while true {
            life += 1
            let record = Record(descriptor: descriptor, folder: files.folder, life: life)
            let process = csimulation_fork()
            if process == 0 { begin(record, shared, writer, ids) }
            var signal: Int32 = 0
            let status = csimulation_wait(process, &signal)
            let kinds = Set(lines(of: life).map(\.kind))
            switch status {
            case csimulation_killed: if kinds.contains("power") { cutPower() }
            case 0: if kinds.contains("calm") { return [] }
            // It was stopped before it listened for that.
            case -1 where signal == SIGTERM && kinds.contains("stop"): if kinds.contains("calm") { return [] }
            case csimulation_stuck: return [Violation(.stuck, "All threads wait, and no time will wake one.")]
            case csimulation_endless: return [Violation(.stuck, "The run does not end.")]
            case csimulation_not_stopped: return [Violation(.noStop, "A stop takes longer than 60 s.")]
            default: return [Violation(.crash, "The daemon ended with status \(status), signal \(signal).")]
            }
            if life > 40 { return [Violation(.stuck, "There is no end of lives.")] }
        }
    }

    private func begin(
        _ record: Record, _ shared: UnsafeMutablePointer<csimulation_shared>, _ writer: Writer, _ ids: [String]
    ) -> Never {
        csimulation_limit(240)
        csimulation_take_clock(shared)
        shared.pointee.now += 100_000_000
        let truth = Truth(scenario, record)
        truth.remember(lines(of: nil))
        let world = World(truth, files, writer, ids)
        record.write("life")
        do {
            try world.prepare()
            truth.lifeBegins(at: shared.pointee.now)
            Life.prepare(files)
            csimulation_take_threads(scenario.switches, shared.pointee.now + 3_600_000_000_000)
            csimulation_keep_synced(files.state, files.synced)
            world.start()
            try HistoryLoop.carry { [files] in try await Life.run(files) }
        } catch {
            record.write("failed", "", "\(error)")
            csimulation_exit(1)
        }
        record.write("ended", "\(shared.pointee.longest_stall / 1_000_000)")
        csimulation_exit(0)
    }

    /// The record's lines of one life, or of all.
    private func lines(of life: Int?) -> [Record.Line] {
        let text = (try? String(contentsOfFile: files.record, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").compactMap(Record.Line.init).filter {
            life == nil || $0.life == life
        }
    }

    /// What was not synced is lost.
    private func cutPower() {
        let manager = FileManager.default
        func databases(in folder: String) -> [String] {
            let names = (try? manager.contentsOfDirectory(atPath: folder)) ?? []
            return names.filter { !$0.hasPrefix(".") && $0.contains(".sqlite") }
        }
        for name in databases(in: files.state) { try? manager.removeItem(atPath: "\(files.state)/\(name)") }
        for name in databases(in: files.synced) where !name.hasSuffix("-shm") {
            try? manager.copyItem(atPath: "\(files.synced)/\(name)", toPath: "\(files.state)/\(name)")
        }
        csimulation_keep_synced(files.state, files.synced)
        csimulation_all_is_synced()
    }
}
