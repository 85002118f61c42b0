/// The difference between the figures of two runs.
///
/// If a figure has a baseline, the ratios are compared: the baseline was measured on the same machine in the same
/// minute, so a slower machine changes both. Differences between the rounds of one run are noise; only a larger
/// difference counts.
struct Comparison {
    enum Verdict: String {
        case same = ""
        case better, worse
    }

    struct Line {
        let group: String
        let name: String
        let unit: Figure.Unit
        let before: Double
        let after: Double
        /// The change from the first run to the second.
        let change: Double
        let verdict: Verdict
    }

    let lines: [Line]
    /// Figures, and groups of figures, of one run only.
    let onlyBefore: [String]
    let onlyAfter: [String]

    init(_ before: [Figure], _ after: [Figure]) {
        lines = after.compactMap { figure in
            before.first { Self.key($0) == Self.key(figure) }.flatMap { Self.line($0, figure) }
        }
        onlyBefore = Self.missing(in: after, of: before)
        onlyAfter = Self.missing(in: before, of: after)
    }

    /// What only one of the runs has: whole groups, and single figures.
    private static func missing(in others: [Figure], of figures: [Figure]) -> [String] {
        let keys = Set(others.map(key))
        let groups = Set(others.map(\.group))
        var missing: [String] = []
        for figure in figures where !keys.contains(key(figure)) {
            let name = groups.contains(figure.group) ? key(figure) : figure.group
            if missing.last != name { missing.append(name) }
        }
        return missing
    }

    /// Whether there is anything to compare.
    static func share(_ before: [Figure], _ after: [Figure]) -> Bool {
        let keys = Set(before.map(key))
        return after.contains { keys.contains(key($0)) }
    }

    private static func key(_ figure: Figure) -> String {
        "\(figure.group): \(figure.name)" + (figure.baseline.map { " (beside \($0.name))" } ?? "")
    }

    private static func line(_ before: Figure, _ after: Figure) -> Line? {
        let areRelative = !before.ratios.isEmpty && !after.ratios.isEmpty
        let old = areRelative ? before.ratios : before.rounds
        let new = areRelative ? after.ratios : after.rounds
        let (from, to) = (Distribution(old).median, Distribution(new).median)
        guard from != 0 || to != 0 else { return nil }
        return Line(
            group: after.group, name: after.name, unit: after.unit, before: before.value, after: after.value,
            change: from == 0 ? .infinity : to / from,
            verdict: verdict(old, new, isBetterHigher: after.unit.isBetterHigher))
    }

    /// A smaller change is ignored, even if the rounds differ less.
    private static let least = 0.02
    /// The noise of a figure that was measured once.
    private static let unknown = 0.1

    private static func verdict(_ old: [Double], _ new: [Double], isBetterHigher: Bool) -> Verdict {
        let (before, after) = (noise(old), noise(new))
        if before.overlaps(after) { return .same }
        return (after.lowerBound > before.upperBound) == isBetterHigher ? .better : .worse
    }

    /// The expected range in another run of the same program: from the smallest to the largest round.
    private static func noise(_ rounds: [Double]) -> ClosedRange<Double> {
        let distribution = Distribution(rounds)
        let margin = abs(distribution.median) * (rounds.count > 1 ? least : unknown) / 2
        let range = distribution.range
        return min(
            range.lowerBound, distribution.median - margin)...max(
                range.upperBound, distribution.median + margin)
    }
}

extension Comparison {
    var text: String {
        var table = AlignedText(head: ["", "before", "after", "change", ""])
        var group: String?
        for line in lines {
            if line.group != group { table.add(.heading(line.group)) }
            group = line.group
            table.add(
                .cells([
                    "  " + line.name, FigureTable.amount(line.before, line.unit),
                    FigureTable.amount(line.after, line.unit),
                    line.change.isFinite ? NumberText.text(line.change, decimals: 2) : "",
                    line.verdict.rawValue,
                ]))
        }
        let missing =
            onlyBefore.map { "Only before: \($0)." } + onlyAfter.map { "Only after: \($0)." }
        return table.text + (missing.isEmpty ? "" : "\n" + missing.joined(separator: "\n") + "\n")
    }
}
