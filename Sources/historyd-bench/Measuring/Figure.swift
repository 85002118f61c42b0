/// One measured number, with what it is compared to.
struct Figure {
    enum Unit: String {
        case microseconds = "µs"
        case milliseconds = "ms"
        case perSecond = "/s"
        case kibibytes = "KiB"
        case count = ""
    }

    struct Baseline {
        let name: String
        let value: Double
    }

    let group: String
    let name: String
    let value: Double
    let unit: Unit
    let baseline: Baseline?

    init(_ group: String, _ name: String, _ value: Double, _ unit: Unit, against baseline: Baseline? = nil) {
        self.group = group
        self.name = name
        self.value = value
        self.unit = unit
        self.baseline = baseline
    }

    var ratio: Double? {
        baseline.flatMap { $0.value == 0 ? nil : value / $0.value }
    }
}

/// Numbers for people: three significant digits, thousands parted by commas.
enum NumberText {
    static func text(_ value: Double) -> String {
        let size = abs(value)
        let decimals = size == size.rounded() || size >= 100 ? 0 : size >= 10 ? 1 : 2
        return text(value, decimals: decimals)
    }

    static func text(_ value: Double, decimals: Int) -> String {
        var scale = 1
        for _ in 0..<decimals { scale *= 10 }
        let scaled = Int((abs(value) * Double(scale)).rounded())
        let sign = value < 0 && scaled > 0 ? "-" : ""
        let whole = sign + grouped(scaled / scale)
        guard decimals > 0 else { return whole }
        let fraction = String(scaled % scale)
        return "\(whole).\(String(repeating: "0", count: decimals - fraction.count))\(fraction)"
    }

    private static func grouped(_ number: Int) -> String {
        let digits = String(number)
        var text = ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place).isMultiple(of: 3) { text += "," }
            text.append(digit)
        }
        return text
    }
}
