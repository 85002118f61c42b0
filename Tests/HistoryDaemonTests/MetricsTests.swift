import Foundation
import HistoryConfiguration
import HistoryControl
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

@Suite struct MetricsTests {
    private static let start = HistoryTimestamp(milliseconds: 1_800_000_000_500)
    private static let store = StoreID.sample()

    /// With everything in it that there is a metric for.
    static func source(store name: String = "contacts") -> MetricsReport {
        var status = RuntimeStatus()
        let token = HistoryToken(store: store, number: 42)
        var deliveries = RuntimeStatus.Consumer()
        deliveries.delays.record(microseconds: 1500)
        status.stores[name] = .init()
        status.stores[name]?.consumers["Main"] = deliveries
        status.stores[name]?.cleaningEffort.countStep()
        status.hooks["p/h"] = .init(calls: 2)
        status.hooks["p/h"]?.callTimes.record(microseconds: 800)
        status.hooks["p/h"]?.callTimes.record(microseconds: 2_000_000_000)
        status.counters.stores[name] = .init(deletedChanges: 7, cleanedAt: 1_800_000_000_000)
        status.counters.hooks["p/h"] = .init(failures: 3, retries: 2)
        status.counters.pluginEnds["p"] = 4
        let lag = LagReport(transactions: 5, isAtLeast: nil, seconds: 2.5)
        let feed = FeedReport(state: .connected, processID: 1, cursor: "\(token)", movedAt: "", behind: 0)
        var consumer = ConsumerReport(store: name, consumer: "Main", state: .held)
        (consumer.cursor, consumer.behind, consumer.lag, consumer.deadLetters) = ("\(token)", 1, lag, 1)
        consumer.contexts = [("view", "replica"), ("index", "plugin"), ("live", "feed")].map { name, kind in
            var context = ContextReport(name: name, kind: kind)
            context.lag = lag
            if kind == "replica" { context.problem = "no" }
            if kind == "feed" { context.feed = feed }
            return context
        }
        var stored = StoreReport(name: name, path: "/s", state: .open)
        (stored.newest, stored.oldest) = ("\(token)", "\(HistoryToken(store: store, number: 2))")
        stored.consumers = [consumer]
        var report = DaemonReport(
            version: "1.0", processID: 1, startedAt: "", summary: "", configuration: "", logLevel: "info",
            hooks: 1, stores: [stored])
        report.plugins = [PluginReport(name: "p", state: .running, failures: 0)]
        var other = StoreReport(name: "tenant-a", path: "/t/a", state: .waiting)
        (other.template, other.problem) = ("tenant-{name}", "no")
        report.stores.append(other)
        report.templates = [
            TemplateReport(
                name: "tenant-{name}", folder: "/t", problem: nil, refused: 3, stores: report.stores)
        ]
        return MetricsReport(
            report: report, status: status, hooks: ["p/h"], startedAt: start, configuredAt: start,
            droppedLines: 1, loopStalls: (2, .milliseconds(1500)), now: start, historySizes: [name: 3000],
            size: { $0 == "/s" ? 4096 : nil })
    }

    private func lines(_ source: MetricsReport = source()) -> [Substring] {
        String(decoding: source.text(), as: UTF8.self).split(separator: "\n")
    }

    @Test func theStoresOfAFolderAreOneUnlessEachIsAskedFor() {
        var source = Self.source()
        #expect(!lines(source).contains { $0.contains("tenant-a") })
        #expect(
            lines(source).contains("historyd_template_stores{template=\"tenant-{name}\",state=\"waiting\"} 1"))
        #expect(lines(source).contains("historyd_template_failing_stores{template=\"tenant-{name}\"} 1"))
        source.detailed = ["tenant-{name}"]
        #expect(lines(source).contains("historyd_store_open{store=\"tenant-a\"} 0"))
    }

    @Test func theTextIsOpenMetrics() {
        let lines = lines()
        #expect(lines.last == "# EOF")
        for line in [
            "historyd_build_info{version=\"1.0\"} 1", "historyd_start_time_seconds 1800000000.5",
            "# TYPE historyd_hook_failures counter", "historyd_hook_failures_total{hook=\"p/h\"} 3",
            "# UNIT historyd_consumer_lag_seconds seconds",
            "historyd_consumer_lag_seconds{store=\"contacts\",consumer=\"Main\"} 2.5",
            "historyd_consumer_lag_limit_seconds{store=\"contacts\",consumer=\"Main\"} 300",
            "historyd_consumer_state{store=\"contacts\",consumer=\"Main\",state=\"held\"} 1",
            "historyd_consumer_state{store=\"contacts\",consumer=\"Main\",state=\"level\"} 0",
            "historyd_replica_up{store=\"contacts\",consumer=\"Main\",replica=\"view\"} 0",
            "historyd_store_history_changes{store=\"contacts\"} 40",
            "historyd_cleanup_steps_total{store=\"contacts\"} 1",
            "historyd_cleanup_refusals_total{store=\"contacts\"} 0",
            "historyd_cleanup_steps_at_risk_total{store=\"contacts\"} 0",
            "historyd_cleanup_longest_wait_seconds{store=\"contacts\"} 0",
            "historyd_hook_retries_total{hook=\"p/h\"} 2",
            "historyd_store_history_size_bytes{store=\"contacts\"} 3000",
            "historyd_store_wal_size_bytes{store=\"contacts\"} 0",
            "historyd_hook_call_duration_seconds_bucket{hook=\"p/h\",le=\"0.0005\"} 0",
            "historyd_hook_call_duration_seconds_bucket{hook=\"p/h\",le=\"0.001\"} 1",
            "historyd_hook_call_duration_seconds_bucket{hook=\"p/h\",le=\"300\"} 1",
            "historyd_hook_call_duration_seconds_bucket{hook=\"p/h\",le=\"+Inf\"} 2",
            "historyd_hook_call_duration_seconds_count{hook=\"p/h\"} 2",
            "historyd_hook_call_duration_seconds_sum{hook=\"p/h\"} 2000.0008",
        ] { #expect(lines.contains(Substring(line)), "\(line)") }
    }

    /// Each metric has a type, a help text and samples, once.
    @Test func everyMetricIsThere() {
        let lines = lines()
        let metrics = ExposedMetric.all
        #expect(metrics.count > 40 && Set(metrics.map(\.name)).count == metrics.count)
        for metric in metrics {
            #expect(!metric.help.isEmpty, "\(metric)")
            #expect(
                lines.contains {
                    $0.hasPrefix(metric.sampleName + "{") || $0.hasPrefix(metric.sampleName + " ")
                },
                "\(metric)")
        }
        #expect(lines.count { $0.hasPrefix("# TYPE") } == metrics.count)
        #expect(lines.count { $0.hasPrefix("# HELP") } == metrics.count)
    }

    /// Names that people give come back as they are.
    @Test(arguments: ["a\"b", "a\\b", "a\nb", "ü 😀", "}{,="]) func labelsAreEscaped(_ name: String) {
        let text = String(decoding: Self.source(store: name).text(), as: UTF8.self)
        let escaped = name.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing(
            "\n", with: "\\n")
        #expect(text.contains("historyd_store_open{store=\"\(escaped)\"} 1\n"))
    }

    /// A histogram loses nothing, whatever is recorded.
    @Test func histogramsAddUp() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SplitMix(state: seed)
        var (one, other, all) = (DurationHistogram(), DurationHistogram(), DurationHistogram())
        for _ in 0..<1000 {
            let time = Int64.random(in: -10...1_000_000_000, using: &random)
            if Bool.random(using: &random) {
                one.record(microseconds: time)
            } else {
                other.record(microseconds: time)
            }
            all.record(microseconds: time)
        }
        one.add(other)
        #expect(one == all && all.count == 1000, "seed \(seed)")
    }
}

@Suite struct PassedSocketsTests {
    private func sockets(_ count: String?, _ names: String?, process: String = "7") -> PassedSockets {
        var environment = ["LISTEN_PID": process]
        environment["LISTEN_FDS"] = count
        environment["LISTEN_FDNAMES"] = names
        return PassedSockets(environment: environment, processID: 7)
    }

    @Test func namesTellWhichIsWhich() {
        let both = sockets("2", "metrics:historyd.socket")
        #expect(both.control == 4 && both.metrics == [3])
        #expect(sockets("1", "metrics").control == nil)
        #expect(sockets("1", nil).control == 3 && sockets("1", nil).metrics.isEmpty)
        #expect(sockets("3", "control:metrics:metrics").metrics == [4, 5])
    }

    @Test func whatIsNotForThisProcessIsLeftAlone() {
        for given in [
            sockets("1", nil, process: "8"), sockets("x", nil), sockets(nil, nil), sockets("-1", nil),
        ] {
            #expect(given.control == nil && given.metrics.isEmpty)
        }
    }
}

/// What is shipped beside the programs names the metrics and causes that there are.
@Suite struct MonitoringFileTests {
    private func file(_ path: String) throws -> String {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    private static let page = "Sources/PersistentHistory/PersistentHistory.docc/Monitoring.md"

    @Test func thePageListsEveryMetric() throws {
        let page = try file(Self.page)
        let metrics = ExposedMetric.all
        for metric in metrics {
            #expect(page.contains("| `\(metric.queriedName)` | \(metric.kind) |"), "\(metric)")
            #expect(page.contains("| \(metric.help) |"), "\(metric)")
        }
        #expect(page.matches(of: /\n\| `historyd_/).count == metrics.count)
    }

    @Test func thePageListsEveryCause() throws {
        let page = try file(Self.page)
        for cause in HealthReport.Cause.allCases {
            #expect(page.contains("\n| `\(cause.rawValue)` | \(cause.verdict.rawValue) |"), "\(cause)")
        }
    }

    @Test(arguments: ["historyd.rules.yml", "grafana-dashboard.json"])
    func onlyKnownMetricsAreNamed(_ name: String) throws {
        let text = try file("config/monitoring/\(name)")
        let known = Set(ExposedMetric.all.map(\.sampleName))
        let named = text.matches(of: /\bhistoryd_[a-z_]+/).map { String($0.0) }
        #expect(named.count > 10)
        for metric in named { #expect(known.contains(metric), "\(metric)") }
    }

    /// Where the description of the protocol lists values, these are all.
    @Test(arguments: [
        LogLevel.allCases.map(\.rawValue), ConsumerReport.State.allCases.map(\.rawValue),
        StoreReport.State.allCases.map(\.rawValue), FeedReport.State.allCases.map(\.rawValue),
        PluginReport.State.allCases.map(\.rawValue), HealthReport.Verdict.allCases.map(\.rawValue),
        DoctorReport.Check.allCases.map(\.rawValue), ChangeOperation.allCases.map(\.rawValue),
    ])
    func valuesOfTheProtocol(_ values: [String]) throws {
        let description = try file("config/openapi.json").filter { !$0.isWhitespace }
        let list = values.map { "\"\($0)\"" }.joined(separator: ",")
        #expect(description.contains("\"enum\":[\(list)]"), "\(list)")
    }
}

/// A metric as the text describes it that has all of them.
private struct ExposedMetric: Equatable {
    let name: String
    let kind: String
    let help: String

    /// As the page names it.
    var queriedName: String { kind == "counter" ? name + "_total" : name }
    var sampleName: String { kind == "histogram" ? name + "_bucket" : queriedName }

    static var all: [ExposedMetric] {
        let text = String(decoding: MetricsTests.source().text(), as: UTF8.self)
        return text.matches(of: /# TYPE (\w+) (\w+)\n(?:# UNIT .*\n)?# HELP (\w+) (.*)\n/).compactMap {
            $0.1 == $0.3 ? ExposedMetric(name: String($0.1), kind: String($0.2), help: String($0.4)) : nil
        }
    }
}
