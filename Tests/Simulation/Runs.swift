/// Runs scenarios one after the other, and finds the shortest that shows the same.
struct Runs {
    let folder: String
    let templates: String

    func perform(_ scenario: Scenario) throws -> Run.Outcome {
        try Run(scenario: scenario, files: Files(folder: folder)).perform(templates: templates)
    }

    /// Leaves out steps, many at a time and then single ones, for as long as what is left shows a violation of the same
    /// kind.
    func shortened(_ scenario: Scenario, showing kind: Violation.Kind) throws -> Scenario {
        var shortest = scenario
        var size = shortest.steps.count / 2
        while size > 0 {
            var start = 0
            while start < shortest.steps.count {
                let numbers = shortest.steps[start..<min(start + size, shortest.steps.count)].map(\.number)
                let shorter = shortest.leavingOut(Set(numbers))
                if try perform(shorter).violations.contains(where: { $0.kind == kind }) {
                    shortest = shorter
                } else {
                    start += size
                }
            }
            size /= 2
        }
        return shortest
    }
}

extension Scenario {
    /// How to run it, and what is left of it.
    var advice: String {
        let all = Scenario(seed: seed, kind: kind).steps.map(\.number)
        let left = Set(steps.map(\.number))
        let without = all.filter { !left.contains($0) }.map(String.init).joined(separator: ",")
        let command = "make simulate KIND=\(kind.rawValue) FROM=\(seed) SEEDS=1"
        return "  shortest: \(command)\(without.isEmpty ? "" : " WITHOUT=\(without)")\n"
            + steps.map { "    \($0.number): \($0)" }.joined(separator: "\n")
    }
}
