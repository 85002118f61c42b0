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
    static func prepareTemplates(in folder: String, count: Int) throws {
        for store in 0..<count {
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
        for folder in keptFolders.flatMap({ [$0.folder, $0.copies] }) {
            try manager.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
        return try scenario.stores.enumerated().map { index, store in
            for folder in [files.folder(of: store.name), files.replicas(store.name)] {
                try manager.createDirectory(atPath: folder, withIntermediateDirectories: true)
            }
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
        for kept in keptFolders { csimulation_keep_synced(kept.folder, kept.copies) }
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
            case csimulation_killed: if kinds.contains("power") { cutPower(after: life) }
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

    /// Where what was not synced is lost with the power, and where copies of the rest are.
    private var keptFolders: [(folder: String, copies: String)] {
        let replicas =
            scenario.kind == .applications
            ? scenario.stores.map { (files.replicas($0.name), files.syncedReplicas($0.name)) } : []
        return [(files.state, files.synced)] + replicas
    }

    /// What was not synced is lost.
    private func cutPower(after life: Int) {
        var dice = Dice(seed: scenario.seed &+ UInt64(life))
        for kept in keptFolders {
            var left: [String: [UInt8]] = [:]
            for name in databases(in: kept.copies) where !name.hasSuffix("-shm") {
                let copy = bytes(of: "\(kept.copies)/\(name)")
                left[name] = scenario.kind == .applications ? mixed(name, copy, kept, &dice) : copy
            }
            for name in databases(in: kept.folder) { unlink("\(kept.folder)/\(name)") }
            for (name, bytes) in left.sorted(by: { $0.key < $1.key }) {
                let path = "\(kept.folder)/\(name)"
                let isWritten = FileManager.default.createFile(atPath: path, contents: Data(bytes))
                precondition(isWritten)
            }
        }
        csimulation_all_is_synced()
    }

    private func databases(in folder: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { !$0.hasPrefix(".") && $0.contains(".sqlite") }.sorted()
    }

    private func bytes(of path: String) -> [UInt8] {
        FileManager.default.contents(atPath: path).map { [UInt8]($0) } ?? []
    }

    /// What was written to a file since it was last synced may be there in part: disks write blocks in any order.
    private func mixed(
        _ name: String, _ synced: [UInt8], _ kept: (folder: String, copies: String), _ dice: inout Dice
    ) -> [UInt8] {
        let path = "\(kept.folder)/\(name)"
        var (present, copy, named) = (stat(), stat(), stat())
        // The name may be another file's by now.
        guard stat(path, &present) == 0, stat("\(kept.copies)/.\(present.st_ino)", &copy) == 0,
            stat("\(kept.copies)/\(name)", &named) == 0, copy.st_ino == named.st_ino, dice.isTrue(2, of: 3)
        else { return synced }
        let written = bytes(of: path)
        var mixed = [UInt8](repeating: 0, count: dice.isTrue(1, of: 2) ? written.count : synced.count)
        for start in stride(from: 0, to: mixed.count, by: 4096) {
            let source = dice.isTrue(1, of: 2) ? written : synced
            let end = min(start + 4096, mixed.count, source.count)
            if start < end { mixed.replaceSubrange(start..<end, with: source[start..<end]) }
        }
        return mixed
    }
}
