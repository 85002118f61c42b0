import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// What `historyctl top` shows: a value that takes answers and keys, and gives lines.
struct TopView {
    enum Action: Equatable {
        case quit
        case pause(store: String)
        case resume(store: String)
        case runNow
    }

    private enum Order: String, CaseIterable {
        case lag, name, store
    }

    private struct Row {
        var consumer: ConsumerReport
        var isPaused: Bool
        var id: String { "\(consumer.store)/\(consumer.consumer)" }
    }

    private var report: DaemonReport?
    private var health: HealthReport?
    private var hooks: [HookReport] = []
    /// Calls each second since the answer before.
    private var rates: [String: Double] = [:]
    /// The lags seen last, for the small graphs.
    private var lags: [String: [Double]] = [:]
    private var takenAt: ContinuousClock.Instant?
    private var problem: String?
    private var order = Order.lag
    private var selected = 0
    private var isInspecting = false

    // MARK: Answers

    mutating func take(
        _ report: DaemonReport, _ health: HealthReport, _ hooks: [HookReport], at now: ContinuousClock.Instant
    ) {
        if let takenAt, now > takenAt {
            let seconds = (now - takenAt) / .seconds(1)
            let before = Dictionary(self.hooks.map { ($0.id, $0.calls) }) { first, _ in first }
            for hook in hooks {
                rates[hook.id] = max(0, Double(hook.calls - (before[hook.id] ?? hook.calls)) / seconds)
            }
        }
        (self.report, self.health, self.hooks, takenAt, problem) = (report, health, hooks, now, nil)
        for consumer in report.stores.flatMap(\.consumers) {
            let id = "\(consumer.store)/\(consumer.consumer)"
            lags[id] = Array(((lags[id] ?? []) + [consumer.lag?.seconds ?? 0]).suffix(20))
        }
        selected = min(selected, max(0, rows.count - 1))
    }

    mutating func fail(_ problem: String) { self.problem = problem }

    private var rows: [Row] {
        let rows = (report?.stores ?? []).flatMap { store in
            store.consumers.filter { $0.isNotable || $0.state == .behind }.map {
                Row(consumer: $0, isPaused: store.state == .paused)
            }
        }
        switch order {
        case .lag:
            return rows.sorted {
                ($1.consumer.lag?.seconds ?? 0, $0.id) < ($0.consumer.lag?.seconds ?? 0, $1.id)
            }
        case .name: return rows.sorted { ($0.consumer.consumer, $0.id) < ($1.consumer.consumer, $1.id) }
        case .store: return rows.sorted { $0.id < $1.id }
        }
    }

    // MARK: Keys

    mutating func press(_ key: Key) -> Action? {
        switch key {
        case .up, .byte(UInt8(ascii: "k")): selected = max(0, selected - 1)
        case .down, .byte(UInt8(ascii: "j")): selected = min(max(0, rows.count - 1), selected + 1)
        case .byte(UInt8(ascii: "s")):
            let all = Order.allCases
            order = all[((all.firstIndex(of: order) ?? 0) + 1) % all.count]
        case .byte(UInt8(ascii: "i")), .byte(10), .byte(13): isInspecting.toggle()
        case .byte(UInt8(ascii: "p")):
            let rows = rows
            guard rows.indices.contains(selected) else { return nil }
            let row = rows[selected]
            return row.isPaused ? .resume(store: row.consumer.store) : .pause(store: row.consumer.store)
        case .byte(UInt8(ascii: "r")): return .runNow
        case .byte(UInt8(ascii: "q")), .byte(3), .byte(4), .byte(27): return .quit
        case .byte, .other: break
        }
        return nil
    }

    // MARK: Lines

    /// As many lines as there are rows at most, none wider than the window.
    func lines(columns: Int, rows height: Int, _ style: TerminalStyle) -> [String] {
        var lines: [(String, TerminalStyle.Style?)] = []
        if let problem { lines.append((problem, .red)) }
        if let report, let health {
            lines.append(("historyd \(report.version): \(report.summary)", .bold))
            let colour: TerminalStyle.Style =
                health.verdict == .healthy ? .green : health.verdict == .degraded ? .yellow : .red
            let worst = health.reasons.first.map { ": \($0.message)" } ?? ""
            lines.append(("\(health.verdict.rawValue)\(worst)", colour))
            lines.append(("", nil))
            lines += isInspecting ? inspection() : tables(report, width: columns)
        } else if problem == nil {
            lines.append(("…", .dim))
        }
        let help = "q quit  s sort (\(order.rawValue))  ↑↓ select  i inspect  p pause/resume  r run"
        return lines.prefix(max(0, height - 1)).map { style($0.0.printable.cut(toWidth: columns), $0.1) }
            + [style(help.cut(toWidth: columns), .dim)]
    }

    private func tables(_ report: DaemonReport, width: Int) -> [(String, TerminalStyle.Style?)] {
        var lines: [(String, TerminalStyle.Style?)] = [
            (Self.columns(["STORE", "CONSUMER", "STATE", "LAG", "BEHIND", "DEAD", ""]), .dim)
        ]
        for (index, row) in rows.enumerated() {
            let consumer = row.consumer
            let text = Self.columns([
                consumer.store, consumer.consumer, consumer.state.rawValue,
                consumer.lag.map { Self.time($0.seconds) } ?? "-",
                consumer.lag.map { String($0.transactions) } ?? "-", String(consumer.deadLetters ?? 0),
                Self.graph(lags[row.id] ?? []),
            ])
            let colour: TerminalStyle.Style? =
                index == selected
                ? .reverse : consumer.state == .held ? .red : consumer.state == .level ? nil : .yellow
            lines.append((text, colour))
        }
        if hooks.isEmpty { return lines }
        lines.append(("", nil))
        lines.append((Self.columns(["HOOK", "KIND", "CALLS", "CALLS/S", "FAILED", "LAST ERROR"]), .dim))
        for hook in hooks {
            let rate = rates[hook.id].map { "\(($0 * 10).rounded() / 10)" } ?? ""
            lines.append(
                (
                    Self.columns([
                        hook.name, hook.kind, String(hook.calls), rate, String(hook.failures),
                        hook.lastError ?? "",
                    ]), nil
                ))
        }
        return lines
    }

    private func inspection() -> [(String, TerminalStyle.Style?)] {
        let rows = rows
        guard rows.indices.contains(selected) else { return [] }
        let consumer = rows[selected].consumer
        var lines: [(String, TerminalStyle.Style?)] = [
            ("\(consumer.store)/\(consumer.consumer)", .bold), ("state    \(consumer.state.rawValue)", nil),
            ("cursor   \(consumer.cursor ?? "")", nil), ("moved    \(consumer.movedAt ?? "")", nil),
            (
                "lag      \(consumer.lag.map { "\(Self.time($0.seconds)), \($0.transactions, "transaction")" } ?? "not known")",
                nil
            ),
        ]
        if let problem = consumer.problem { lines.append(("problem  \(problem)", .red)) }
        for context in consumer.contexts {
            let state = context.problem ?? context.feed?.state.rawValue ?? "written"
            lines.append(("\(context.kind)  \(context.name): \(state)", context.problem == nil ? nil : .red))
        }
        return lines
    }

    // MARK: Text

    private static let widths = [16, 16, 10, 8, 8, 6]

    private static func columns(_ cells: [String]) -> String {
        zip(cells, widths + [0]).map { cell, width in
            width > 0 ? cell.printable.cut(toWidth: width).padded(toWidth: width) : cell
        }.joined(separator: " ")
    }

    static func time(_ seconds: Double) -> String {
        switch seconds {
        case ..<0.0005: "0"
        case ..<1: "\(Int(seconds * 1000)) ms"
        case ..<120: "\(Int(seconds)) s"
        case ..<7200: "\(Int(seconds / 60)) min"
        default: "\(Int(seconds / 3600)) h"
        }
    }

    /// Small bars, of which the highest is the greatest value.
    static func graph(_ values: [Double]) -> String {
        let bars = Array("▁▂▃▄▅▆▇█")
        guard let most = values.max(), most > 0 else { return "" }
        return String(values.map { bars[min(bars.count - 1, Int($0 / most * Double(bars.count - 1)))] })
    }
}
