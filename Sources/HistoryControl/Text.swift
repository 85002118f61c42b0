extension DefaultStringInterpolation {
    /// `1 store`, `2 stores`.
    package mutating func appendInterpolation(_ count: Int, _ noun: String) {
        appendLiteral(count == 1 ? "1 \(noun)" : "\(count) \(noun)s")
    }
}

extension Duration {
    /// `100 ms`, `2.5 s`.
    package var text: String {
        let milliseconds = components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
        if milliseconds < 1000 { return "\(milliseconds) ms" }
        return milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(Double(milliseconds) / 1000) s"
    }
}

/// OpenMetrics text as Prometheus' own older format, which node_exporter's textfile collector and `promtool check
/// metrics` read.
///
/// There, a counter is called as its samples are, with `_total`; units have no line. The last line, `# EOF`, stays: a
/// comment that shows that the text is whole.
package enum PrometheusText {
    package static func converted(_ openMetrics: String) -> String {
        var counters: Set<Substring> = []
        var text = ""
        for line in openMetrics.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 3)
            if line.hasPrefix("# UNIT ") { continue }
            if line.hasPrefix("# TYPE "), words.last == "counter" { counters.insert(words[2]) }
            if line.hasPrefix("# "), words.count == 4, counters.contains(words[2]) {
                text += "# \(words[1]) \(words[2])_total \(words[3])\n"
            } else {
                text += "\(line)\n"
            }
        }
        return text
    }
}
