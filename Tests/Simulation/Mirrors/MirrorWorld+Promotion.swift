import CSimulation
import GRDB
import HistoryNATS
import PersistentHistory

extension MirrorWorld {
    /// The first mirror becomes the source, while the old publisher runs and the old source is written to.
    mutating func promote() throws {
        stop(.follower(0))
        // The other mirror gets the history that this one has.
        cleaned[1] = max(cleaned[0] ?? 0, cleaned[1] ?? 0)
        // Only once may it meet a source that publishes all the time, or streams that no program has missed yet.
        var isDone = try isPromoted(writes: dice.number(0...9))
        if !isDone {
            csimulation_sleep(30_000_000_000)
            isDone = try isPromoted(writes: 0)
        }
        guard isDone else {
            // Where a limit removes messages at once, it is not known whether a mirror had all of them.
            return isLimited ? () : violation(.missing, "The mirror cannot be promoted.")
        }
        let promoted = try end(ofMirror: 0) ?? 0
        let published = programs.report(.publisher)?.position ?? 0
        if promoted < published {
            violation(.lost, "The stream ended at \(published), and the promoted store ends at \(promoted).")
        }
        record.write("promoted", "\(promoted)", "\(published)")
        for _ in 0..<60 {
            csimulation_sleep(5_000_000_000)
            try look(at: 1)
            if try end(ofMirror: 1) == promoted, programs.report(.publisher)?.needsOperator ?? false { return }
        }
        violation(
            .missing,
            "Behind a promotion at \(promoted), mirrors are at \(shown), and the old source says: \(problems).")
    }

    private mutating func isPromoted(writes: Int) throws -> Bool {
        let (promotion, ended, isPromoted) = (programs.promotion, TimedSemaphore(), Locked(false))
        let number = startThread {
            let result = promotion.run(acceptsLoss: false)
            isPromoted.withLock { $0 = result }
            ended.signal()
        }
        if number != 0 { csimulation_exit(1) }
        var rest = writes
        while !ended.wait(atMost: .microseconds(dice.number(1...4000))) {
            if rest > 0 { try source.write() }
            rest -= 1
        }
        return isPromoted.withLock(\.self)
    }

    private func end(ofMirror number: Int) throws -> Int64? {
        guard let queue = try mirror(number) else { return nil }
        defer { try? queue.close() }
        return try queue.read { try Int64.fetchOne($0, sql: "SELECT max(id) FROM historyd_change") }
    }
}
