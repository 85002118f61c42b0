import ArgumentParser
import HistoryConfiguration
import HistoryControl

struct Top: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Watch stores, consumers and hooks live, in a terminal.",
        discussion: """
            Keys: q quits, s sorts by lag, name or store, the arrows select a consumer, i shows its details, p \
            pauses or resumes its store, r runs a pass. Without a terminal, use historyctl status --watch.
            """)

    @OptionGroup var connection: ConnectionOptions

    /// How often the daemon is queried.
    private static let pause: Int32 = 1000
    /// How long a request may take.
    private static let timeout: Duration = .seconds(10)

    func run() async throws {
        guard let terminal = RawTerminal() else {
            throw ValidationError("There is no terminal. Use historyctl status --watch.")
        }
        let (client, style) = (connection.client(timeout: Self.timeout), TerminalStyle.suitable)
        var view = TopView()
        var shown: [String] = []
        while true {
            await Self.refresh(&view, client)
            let size = terminal.size
            let lines = view.lines(columns: size.columns, rows: size.rows, style)
            if lines != shown {
                terminal.draw(lines)
                shown = lines
            }
            switch terminal.read(within: Self.pause) {
            case .nothing: continue
            case .end: return
            case .keys(let keys):
                for key in Key.keys(of: keys) {
                    guard let action = view.press(key) else { continue }
                    if action == .quit { return }
                    do {
                        try await Self.perform(action, client)
                    } catch {
                        view.fail("\(error)")
                    }
                }
            }
        }
    }

    private static func refresh(_ view: inout TopView, _ client: ControlClient) async {
        do {
            let report = try ControlJSON.read(DaemonReport.self, from: try await client.send(.status))
            let health = try ControlJSON.read(HealthReport.self, from: try await client.send(.health))
            let hooks = try ControlJSON.read(HookList.self, from: try await client.send(.hooks))
            view.take(report, health, hooks.hooks, at: .now)
        } catch {
            // The daemon may be restarted.
            view.fail("\(error)")
        }
    }

    private static func perform(_ action: TopView.Action, _ client: ControlClient) async throws {
        switch action {
        case .quit: return
        case .pause(let store): _ = try await client.send(.pause(store: store))
        case .resume(let store): _ = try await client.send(.resume(store: store))
        case .runNow: _ = try await client.send(.run(store: nil, timeout: "5s"))
        }
    }
}
