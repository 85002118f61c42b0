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
