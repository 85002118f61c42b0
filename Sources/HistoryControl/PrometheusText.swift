/// Converts OpenMetrics text to Prometheus' own older format, which node_exporter's textfile collector and
/// `promtool check metrics` read.
///
/// There, a counter has the name of its samples, with `_total`, and units have no line. The last line, `# EOF`,
/// stays: it is a comment that shows that the text is complete.
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
