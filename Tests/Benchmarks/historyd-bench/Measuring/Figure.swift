/// One thing that was measured repeatedly, with its baseline.
struct Figure: Codable {
    enum Unit: String, Codable {
        case microseconds = "µs"
        case milliseconds = "ms"
        case perSecond = "/s"
        case kibibytes = "KiB"
        case percent = "%"
        case count = ""

        var isBetterHigher: Bool { self == .perSecond }
    }

    /// The baseline, measured in the same rounds.
    struct Baseline: Codable {
        let name: String
        let rounds: [Double]

        init(name: String, rounds: [Double]) {
            self.name = name
            self.rounds = rounds
        }

        init(name: String, value: Double) {
            self.init(name: name, rounds: [value])
        }

        var value: Double { Distribution(rounds).median }
    }

    let group: String
    let name: String
    let unit: Unit
    /// The result of each round.
    let rounds: [Double]
    let baseline: Baseline?
    let aim: Aim?

    init(
        _ group: String, _ name: String, rounds: [Double], _ unit: Unit, against baseline: Baseline? = nil,
        aim: Aim? = nil
    ) {
        self.group = group
        self.name = name
        self.rounds = rounds
        self.unit = unit
        self.baseline = baseline
        self.aim = aim
    }

    init(
        _ group: String, _ name: String, _ value: Double, _ unit: Unit, against baseline: Baseline? = nil,
        aim: Aim? = nil
    ) {
        self.init(group, name, rounds: [value], unit, against: baseline, aim: aim)
    }

    var value: Double { Distribution(rounds).median }

    var ratio: Double? {
        baseline.flatMap { $0.value == 0 ? nil : value / $0.value }
    }

    /// The ratio of each round to its baseline. Empty if there is none.
    var ratios: [Double] {
        guard let baseline, !baseline.rounds.contains(0) else { return [] }
        guard baseline.rounds.count == rounds.count else { return rounds.map { $0 / baseline.value } }
        return zip(rounds, baseline.rounds).map { $0 / $1 }
    }
}

/// An aim for a figure.
enum Aim: Codable, Equatable {
    /// As a ratio to its baseline.
    case ratioAtMost(Double)
    case atMost(Double)
    case atLeast(Double)

    func isMet(by figure: Figure) -> Bool {
        switch self {
        case .ratioAtMost(let limit):
            // Nothing at all is always little enough.
            figure.ratio.map { $0 <= limit } ?? (figure.value == 0)
        case .atMost(let limit): figure.value <= limit
        case .atLeast(let limit): figure.value >= limit
        }
    }

    var text: String {
        switch self {
        case .ratioAtMost(let limit): "≤ \(NumberText.text(limit, decimals: 2)) times"
        case .atMost(let limit): "≤ \(NumberText.text(limit))"
        case .atLeast(let limit): "≥ \(NumberText.text(limit))"
        }
    }
}
