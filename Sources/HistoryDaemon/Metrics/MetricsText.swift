import PersistentHistory

/// Metrics as OpenMetrics text, which Prometheus' older format reads as well: only types that both know are used.
///
/// Source: https://prometheus.io/docs/specs/om/open_metrics_spec/
package struct MetricsText {
    package typealias Labels = [(name: String, value: String)]

    package static let contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    private(set) var bytes: [UInt8] = []

    package init() {}

    package enum Kind: String {
        case gauge, counter, histogram
    }

    /// Writes one metric with all its samples; nothing where there are none.
    ///
    /// - Parameters:
    ///   - name: The last part is the unit, as OpenMetrics requires. A counter's samples get the suffix
    ///     `_total`.
    ///   - help: Must need no escaping, which differs between the two formats.
    package mutating func write(
        _ name: String, _ help: String, as kind: Kind = .gauge, _ samples: [(labels: Labels, value: Double)]
    ) {
        if samples.isEmpty { return }
        begin(name, help, kind)
        for sample in samples {
            line(kind == .counter ? name + "_total" : name, sample.labels, sample.value)
        }
    }

    mutating func write(_ name: String, _ help: String, as kind: Kind = .gauge, _ value: Double) {
        write(name, help, as: kind, [([], value)])
    }

    mutating func write(
        _ name: String, _ help: String, histograms: [(labels: Labels, histogram: DurationHistogram)]
    ) {
        if histograms.isEmpty { return }
        begin(name, help, .histogram)
        for (labels, histogram) in histograms {
            var count = 0
            for (index, bound) in (DurationHistogram.bounds.map { Optional($0) } + [nil]).enumerated() {
                if histogram.counts.indices.contains(index) { count += histogram.counts[index] }
                let limit = bound.map { Self.number(Double($0) / 1_000_000) } ?? "+Inf"
                line(name + "_bucket", labels + [("le", limit)], Double(count))
            }
            line(name + "_count", labels, Double(count))
            line(name + "_sum", labels, Double(histogram.sum) / 1_000_000)
        }
    }

    /// - Returns: The whole text.
    package mutating func end() -> [UInt8] {
        put("# EOF\n")
        return bytes
    }

    private mutating func begin(_ name: String, _ help: String, _ kind: Kind) {
        put("# TYPE \(name) \(kind.rawValue)\n")
        for unit in ["seconds", "bytes"] where name.hasSuffix("_\(unit)") { put("# UNIT \(name) \(unit)\n") }
        put("# HELP \(name) \(help)\n")
    }

    private mutating func line(_ name: String, _ labels: Labels, _ value: Double) {
        put(name)
        for (index, label) in labels.enumerated() {
            put("\(index == 0 ? "{" : ",")\(label.name)=\"\(Self.escaped(label.value))\"")
        }
        put(labels.isEmpty ? " " : "} ")
        put(Self.number(value))
        put("\n")
    }

    private mutating func put(_ text: String) { bytes += text.utf8 }

    /// Whole numbers without a point.
    private static func number(_ value: Double) -> String {
        Int64(exactly: value).map { "\($0)" } ?? "\(value)"
    }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": escaped += "\\\\"
            case "\"": escaped += "\\\""
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}
