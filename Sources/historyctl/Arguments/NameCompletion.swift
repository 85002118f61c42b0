import ArgumentParser
import HistoryControl

/// Names that the running daemon knows, for shell completion. Without a daemon there are none.
extension CompletionKind {
    static let stores = names { report in report.stores.map(\.name) }
    static let consumers = names { report in report.stores.flatMap(\.consumers).map(\.consumer) }
    static let contexts = names { report in
        report.stores.flatMap(\.consumers).flatMap(\.contexts).map(\.name)
    }
    static let plugins = CompletionKind.custom { arguments, _, _ in
        let list = await answer(.plugins, PluginList.self, arguments)
        return unique(list?.plugins.map(\.name) ?? [])
    }

    /// Completion must not make the user wait.
    private static let timeout: Duration = .seconds(5)

    private static func names(_ names: @escaping @Sendable (DaemonReport) -> [String]) -> CompletionKind {
        .custom { arguments, _, _ in
            unique(await answer(.status, DaemonReport.self, arguments).map(names) ?? [])
        }
    }

    /// - Parameter arguments: The words so far, which may include the socket.
    private static func answer<Answer: Decodable>(
        _ command: ControlCommand, _ type: Answer.Type, _ arguments: [String]
    ) async -> Answer? {
        let socket = arguments.firstIndex(of: "--socket").flatMap { index in
            arguments.indices.contains(index + 1) ? arguments[index + 1] : nil
        }
        let client = ControlClient(socket: socket, timeout: timeout)
        guard let bytes = try? await client.send(command) else { return nil }
        return try? ControlJSON.read(type, from: bytes)
    }

    private static func unique(_ names: [String]) -> [String] { Set(names).sorted() }
}
