import PersistentHistory

/// Metrics as OpenMetrics text, which Prometheus' older format reads as well: only types that both know are used.
///
/// Source: https://prometheus.io/docs/specs/om/open_metrics_spec/
package struct MetricsText {
    typealias Labels = [(name: String, value: String)]

    package static let contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    private(set) var bytes: [UInt8] = []

    /// Writes one metric with all its samples; nothing where there are none.
    mutating func write(_ metric: Metric, _ samples: [(labels: Labels, value: Double)]) {
        if samples.isEmpty { return }
        begin(metric)
        for sample in samples { line(metric.sampleName, sample.labels, sample.value) }
    }

    mutating func write(_ metric: Metric, _ value: Double) { write(metric, [([], value)]) }

    mutating func write(_ metric: Metric, histograms: [(labels: Labels, histogram: DurationHistogram)]) {
        if histograms.isEmpty { return }
        begin(metric)
        for (labels, histogram) in histograms {
            var count = 0
            for (index, bound) in (DurationHistogram.bounds.map { Optional($0) } + [nil]).enumerated() {
                if histogram.counts.indices.contains(index) { count += histogram.counts[index] }
                let name = bound.map { Self.number(Double($0) / 1_000_000) } ?? "+Inf"
                line(metric.rawValue + "_bucket", labels + [("le", name)], Double(count))
            }
            line(metric.rawValue + "_count", labels, Double(count))
            line(metric.rawValue + "_sum", labels, Double(histogram.sum) / 1_000_000)
        }
    }

    /// - Returns: The whole text.
    mutating func end() -> [UInt8] {
        put("# EOF\n")
        return bytes
    }

    private mutating func begin(_ metric: Metric) {
        put("# TYPE \(metric.rawValue) \(metric.kind.rawValue)\n")
        if let unit = metric.unit { put("# UNIT \(metric.rawValue) \(unit)\n") }
        // Our own words: nothing in them needs to be escaped, which the two formats do differently.
        put("# HELP \(metric.rawValue) \(metric.help)\n")
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
