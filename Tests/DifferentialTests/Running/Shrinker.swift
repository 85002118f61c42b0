/// Cuts a case that fails down to what it takes to fail.
struct Shrinker {
    /// Whether a case still fails, in the same way.
    let fails: (Case) -> Bool
    /// Runs that may still be made.
    private var left = 1500

    init(fails: @escaping (Case) -> Bool) { self.fails = fails }

    /// - Parameter specimen: A case that fails.
    mutating func shrunk(_ specimen: Case) -> Case {
        var best = specimen
        while true {
            let before = size(best)
            best = withFewer(\.steps, of: best)
            best = withFewer(\.later, of: best)
            best = withFewer(\.schema, of: best)
            best = withSimplerSettings(best)
            best = withShorterStatements(best)
            if size(best) == before || left <= 0 { return best }
        }
    }

    private func size(_ specimen: Case) -> Int { specimen.script.utf8.count }

    private mutating func stillFails(_ candidate: Case) -> Bool {
        guard left > 0 else { return false }
        left -= 1
        return fails(candidate)
    }

    /// Leaves out ever smaller parts of a list.
    private mutating func withFewer<Element>(_ list: WritableKeyPath<Case, [Element]>, of specimen: Case)
        -> Case
    {
        var best = specimen
        var length = max(1, best[keyPath: list].count / 2)
        while length >= 1 {
            var start = best[keyPath: list].count - length
            while start > -length {
                var candidate = best
                let range = max(0, start)..<min(best[keyPath: list].count, start + length)
                candidate[keyPath: list].removeSubrange(range)
                if !range.isEmpty, stillFails(candidate) { best = candidate }
                start -= length
            }
            length /= 2
        }
        return best
    }

    private mutating func withSimplerSettings(_ specimen: Case) -> Case {
        var best = specimen
        let changes: [(inout Case.Settings) -> Void] = [
            { $0.isWAL = false }, { $0.isUTF16 = false }, { $0.recursiveTriggers = false },
            { $0.foreignKeys = false }, { $0.trustsSchema = true }, { $0.autoVacuum = false },
            { $0.preservesEvery = 0 }, { $0.loadsLate = false }, { $0.hasLimits = false },
        ]
        for change in changes {
            var candidate = best
            change(&candidate.settings)
            if candidate.script != best.script, stillFails(candidate) { best = candidate }
        }
        return best
    }

    private mutating func withShorterStatements(_ specimen: Case) -> Case {
        var best = specimen
        for index in best.schema.indices {
            shorten(&best) {
                $0.schema[index]
            } set: {
                $0.schema[index] = $1
            }
        }
        for index in best.steps.indices {
            guard case .sql(let writer, _) = best.steps[index] else { continue }
            shorten(&best) { specimen in
                if case .sql(_, let sql) = specimen.steps[index] { sql } else { SQL("") }
            } set: {
                $0.steps[index] = .sql(writer, $1)
            }
        }
        return best
    }

    private mutating func shorten(_ best: inout Case, _ get: (Case) -> SQL, set: (inout Case, SQL) -> Void) {
        func candidate(_ change: (inout SQL) -> Void) -> Case {
            var sql = get(best)
            change(&sql)
            var candidate = best
            set(&candidate, sql)
            return candidate
        }
        for position in get(best).list.indices.reversed() where get(best).list.count > 1 {
            let shorter = candidate { $0.list.remove(at: position) }
            if stillFails(shorter) { best = shorter }
        }
        if get(best).tail.hasPrefix(" ") {
            let shorter = candidate { $0.tail = "" }
            if stillFails(shorter) { best = shorter }
        }
    }
}
