import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// The state of `historyctl top`: a value that takes answers and keys, and produces lines.
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

    /// A store without consumers, a consumer, or one of its feeds.
    private struct Row {
        var store: String
        /// Nil for a store.
        var consumer: ConsumerReport?
        var feed: ContextReport?
        var isPaused: Bool
        var state: String
        var problem: String?

        /// The id, which stays the same wherever the row stands.
        var id: String {
            [store, consumer?.consumer, feed?.name].compactMap(\.self).joined(separator: "\u{0}")
        }
        var name: String {
            [consumer?.consumer ?? "", feed?.name].compactMap(\.self).joined(separator: "/")
        }
        var lag: Double { feed == nil ? consumer?.lag?.seconds ?? 0 : 0 }
    }

    private var report: DaemonReport?
    private var health: HealthReport?
    private var hooks: [HookReport] = []
    /// Calls per second since the previous answer.
    private var rates: [String: Double] = [:]
    /// The latest lags, for the small graphs.
    private var lags: [String: [Double]] = [:]
    private var takenAt: ContinuousClock.Instant?
    private var problem: String?
    private var order = Order.lag
    /// The id of the selected row: rows move.
    private var selected: String?
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
        let isFirst = self.report == nil
        (self.report, self.health, self.hooks, takenAt, problem) = (report, health, hooks, now, nil)
        for consumer in report.stores.flatMap(\.consumers) {
            let id = "\(consumer.store)\u{0}\(consumer.consumer)"
            lags[id] = Array(((lags[id] ?? []) + [consumer.lag?.seconds ?? 0]).suffix(20))
        }
        if isFirst { selected = rows.first?.id }
    }

    mutating func fail(_ problem: String) { self.problem = problem }

    private var rows: [Row] {
        let rows = (report?.stores ?? []).flatMap(Self.rows)
        switch order {
        // A stuck consumer must not hide behind slow ones.
        case .lag: return rows.sorted { ($1.lag, $0.id) < ($0.lag, $1.id) }
        case .name: return rows.sorted { ($0.name, $0.id) < ($1.name, $1.id) }
        case .store: return rows.sorted { $0.id < $1.id }
        }
    }

    private static func rows(of store: StoreReport) -> [Row] {
        func row(_ consumer: ConsumerReport?, _ feed: ContextReport? = nil, _ state: String, _ problem: String?)
            -> Row
        {
            Row(
                store: store.name, consumer: consumer, feed: feed, isPaused: store.state == .paused,
                state: state,
                problem: problem)
        }
        // A store that is not open states the reason in its own row.
        let own =
            store.isNotable && (store.consumers.isEmpty || store.problem != nil)
            ? [row(nil, nil, store.state.rawValue, store.problem)] : []
        return own
            + store.consumers.filter { $0.isNotable || $0.state == .behind }.flatMap { consumer in
                [row(consumer, nil, consumer.state.rawValue, consumer.problem)]
                    + consumer.contexts.compactMap { context in
                        context.feed.map { row(consumer, context, $0.state.rawValue, context.problem) }
                    }
            }
    }

    /// If the selected row is gone, none is selected: the next key must not act on another row.
    private mutating func select(_ step: Int) {
        let rows = rows
        guard !rows.isEmpty else { return }
        let index = rows.firstIndex { $0.id == selected }.map { $0 + step } ?? 0
        selected = rows[min(max(0, index), rows.count - 1)].id
    }

    // MARK: Keys

    mutating func press(_ key: Key) -> Action? {
        switch key {
        case .up, .byte(UInt8(ascii: "k")): select(-1)
        case .down, .byte(UInt8(ascii: "j")): select(1)
        case .byte(UInt8(ascii: "s")):
            let all = Order.allCases
            order = all[((all.firstIndex(of: order) ?? 0) + 1) % all.count]
        case .byte(UInt8(ascii: "i")), .byte(10), .byte(13): isInspecting.toggle()
        case .byte(UInt8(ascii: "p")):
            let rows = rows
            // Only a row that is visibly selected.
            guard let row = rows.first(where: { $0.id == selected }) else { return nil }
            return row.isPaused ? .resume(store: row.store) : .pause(store: row.store)
        case .byte(UInt8(ascii: "r")): return .runNow
        case .byte(UInt8(ascii: "q")), .byte(3), .byte(4), .byte(27): return .quit
        case .byte, .other: break
        }
        return nil
    }

    // MARK: Lines

    /// At most as many lines as the window has rows, none wider than the window.
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
            let room = max(0, height - 1 - lines.count)
            lines += isInspecting ? inspection(columns) : tables(room)
        } else if problem == nil {
            lines.append(("…", .dim))
        }
        let help = "q quit  s sort (\(order.rawValue))  ↑↓ select  i inspect  p pause/resume  r run"
        return lines.prefix(max(0, height - 1)).map { style($0.0.printable.cut(toWidth: columns), $0.1) }
            + [style(help.cut(toWidth: columns), .dim)]
    }

    private typealias Line = (String, TerminalStyle.Style?)

    /// The titles, and as many of the rows and hooks below as fit, around the selected row.
    private func tables(_ room: Int) -> [Line] {
        let titles: Line = (Self.columns(["STORE", "CONSUMER", "STATE", "LAG", "BEHIND", "DEAD", ""]), .dim)
        let rows = rows
        let selection = rows.firstIndex { $0.id == selected } ?? 0
        let body = rows.map { line($0, isSelected: $0.id == selected) } + hookLines
        let shown = max(0, room - 1)
        let start = max(0, min(selection - shown / 2, body.count - shown))
        return [titles] + body[start..<min(body.count, start + shown)]
    }

    private func line(_ row: Row, isSelected: Bool) -> Line {
        let (consumer, feed) = (row.consumer, row.feed?.feed)
        let lag = feed == nil ? consumer?.lag : nil
        let text = Self.columns([
            row.store, row.name, row.state, lag.map { Self.time($0.seconds) } ?? "-",
            feed.map { String($0.behind) } ?? lag.map { String($0.transactions) } ?? "-",
            feed == nil ? consumer.map { String($0.deadLetters ?? 0) } ?? "-" : "-",
            row.problem ?? Self.graph(lags[row.id] ?? []),
        ])
        let isWell = ["level", "open", "connected"].contains(row.state)
        let colour: TerminalStyle.Style? =
            row.state == "held" || row.state == "waiting" ? .red : isWell ? nil : .yellow
        return (text, isSelected ? .reverse : colour)
    }

    private static let hookWidths = [24, 9, 8, 8, 8]

    private var hookLines: [Line] {
        if hooks.isEmpty { return [] }
        func text(_ cells: [String]) -> String { Self.columns(cells, Self.hookWidths) }
        return [("", nil), (text(["HOOK", "KIND", "CALLS", "CALLS/S", "FAILED", "LAST ERROR"]), .dim)]
            + hooks.map { hook in
                let rate = rates[hook.id].map { "\(($0 * 10).rounded() / 10)" } ?? ""
                return (
                    text([
                        hook.name, hook.kind, String(hook.calls), rate, String(hook.failures),
                        hook.lastError ?? "",
                    ]), nil
                )
            }
    }

    /// All fields of the selected row, in full.
    private func inspection(_ width: Int) -> [Line] {
        let rows = rows
        guard let row = rows.first(where: { $0.id == selected }) else { return [] }
        var lines: [Line] = [
            ([row.store, row.name].filter { !$0.isEmpty }.joined(separator: "/"), .bold),
            ("state    \(row.state)", nil),
        ]
        func addProblem(_ title: String, _ problem: String?) {
            guard let problem else { return }
            lines += "\(title)  \(problem)".printable.wrapped(toWidth: width).map { ($0, .red) }
        }
        if let consumer = row.consumer {
            lines += [
                ("cursor   \(row.feed?.feed?.cursor ?? consumer.cursor ?? "")", nil),
                ("moved    \(row.feed?.feed?.movedAt ?? consumer.movedAt ?? "")", nil),
            ]
            if row.feed == nil {
                let lag = consumer.lag.map { "\(Self.time($0.seconds)), \($0.transactions, "transaction")" }
                lines.append(("lag      \(lag ?? "not known")", nil))
            }
        }
        addProblem("problem", row.problem)
        for context in row.feed == nil ? row.consumer?.contexts ?? [] : [] {
            if context.problem == nil {
                lines.append(
                    ("\(context.kind)  \(context.name): \(context.feed?.state.rawValue ?? "written")", nil))
            } else {
                addProblem("\(context.kind)  \(context.name):", context.problem)
            }
        }
        for hook in hooks where row.consumer != nil && hook.lastError != nil {
            addProblem("hook     \(hook.name):", hook.lastError)
        }
        return lines
    }

    // MARK: Text

    private static let widths = [16, 16, 10, 8, 8, 6]

    private static func columns(_ cells: [String], _ widths: [Int] = widths) -> String {
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

    /// Small bars, scaled to the greatest value.
    static func graph(_ values: [Double]) -> String {
        let bars = Array("▁▂▃▄▅▆▇█")
        guard let most = values.max(), most > 0 else { return "" }
        return String(values.map { bars[min(bars.count - 1, Int($0 / most * Double(bars.count - 1)))] })
    }
}
