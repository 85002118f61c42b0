import FoundationEssentials
import Glibc
package import HistoryConfiguration
import Logging
package import PersistentHistory

/// Checks whether a plugin's interpreter works where the daemon runs: as its user and in its sandbox.
///
/// The interpreter is started with a program that does nothing. The plugin's own program is not started: it
/// would take that for a call, or act at once.
package struct InterpreterCheck: Sendable, Hashable {
    /// The interpreter with its options, and the trial program.
    package let command: [String]
    /// Whether the text of the plugin's program suggests a need for the network, which the sandbox forbids.
    package let seemsToUseNetwork: Bool

    /// The trial program of each interpreter. Several that compile do so only once they run code.
    private static let trials: [(name: String, arguments: [String])] = [
        ("node", ["-e", "0"]), ("deno", ["eval", "0"]), ("bun", ["-e", "0"]), ("java", ["-version"]),
        ("dotnet", ["--info"]), ("luajit", ["-e", ""]), ("ruby", ["-e", "0"]), ("perl", ["-e", "0"]),
        ("php", ["-r", "0;"]), ("python", ["-c", "0"]), ("pypy", ["-c", "0"]),
    ]

    private static let ofNetwork = [
        "urllib.request", "import requests", "http.client", "httpx", "aiohttp", "smtplib", "fetch(",
        "node:http", "curl ",
        "wget ",
    ]

    /// Nil for a program whose interpreter is not listed, or that needs none.
    ///
    /// - Parameters:
    ///   - command: The plugin's command.
    ///   - path: The folders in which to look for programs that are named without one.
    ///   - read: Returns the first bytes of a file, as text; nil if it is not text or cannot be read.
    init?(_ command: [String], path: String, read: (String) -> String?) {
        guard let program = command.first else { return nil }
        var (interpreter, script) = (
            command, command.dropFirst().first { !$0.hasPrefix("-") && read($0) != nil }
        )
        if let text = read(program), text.hasPrefix("#!") {
            interpreter = Self.interpreter(text.dropFirst(2).prefix { $0 != "\n" }, path: path, read: read)
            script = program
        } else if let script, let index = command.firstIndex(of: script) {
            interpreter = Array(command[..<index])
        }
        let text = script.flatMap(read) ?? ""
        let name = (interpreter.first ?? "").split(separator: "/").last ?? ""
        guard let trial = Self.trials.first(where: { name.hasPrefix($0.name) }) else {
            guard script != nil, Self.ofNetwork.contains(where: { text.contains($0) }) else { return nil }
            (self.command, seemsToUseNetwork) = ([], true)
            return
        }
        var arguments = trial.arguments
        let importsUs = ["import historyd", "from historyd"].contains { text.contains($0) }
        if let script, importsUs, arguments[0] == "-c" {
            // Python looks for modules in the program's folder first.
            arguments = [
                "-c", "import sys; sys.path.insert(0, sys.argv[1]); import historyd",
                PathNames.parent(of: script),
            ]
        }
        self.command = interpreter + arguments
        seemsToUseNetwork = Self.ofNetwork.contains { text.contains($0) }
    }

    /// The interpreter that a first line names (execve(2)), as env(1) resolves it.
    private static func interpreter(
        _ line: Substring, path: String, read: (String) -> String?
    ) -> [String] {
        var words = line.split { $0 == " " || $0 == "\t" }.map(String.init)
        guard words.first?.split(separator: "/").last == "env" else { return words }
        words.removeFirst()
        words = Array(words.drop { $0.hasPrefix("-") || $0.contains("=") })
        guard let name = words.first, !name.contains("/") else { return words }
        let found = path.split(separator: ":").map { "\($0)/\(name)" }.first { read($0) != nil }
        return [found ?? name] + words.dropFirst()
    }

    /// Reads the plugin's program, which may wait for a disk.
    package init?(of plugin: PluginConfiguration) {
        let inherited = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
        self.init(plugin.command, path: plugin.environment["PATH"] ?? inherited, read: Self.read)
    }

    private static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    /// How long an interpreter may take.
    private static let timeout: Duration = .seconds(10)

    /// Starts the interpreter in the same way as the plugin's processes.
    ///
    /// - Returns: What failed, with the remedy; nil if it works.
    package func problem(of plugin: PluginConfiguration) async -> String? {
        if command.isEmpty { return nil }
        var trial = plugin
        (trial.command, trial.mode, trial.timeout) = (command, .oneshot, Self.timeout)
        let silent = Logger(label: "doctor") { _ in SwiftLogNoOpLogHandler() }
        do throws(HookFailure) {
            try await OneshotPlugin(trial, logger: silent).tryOut()
            return nil
        } catch {
            return "Its interpreter \((command.first ?? "").quoted) does not work here. \(error.message)"
        }
    }

    /// A hint that is not a failure: the program may need the network, which the sandbox forbids.
    package func note(within limits: SandboxLimits = .current) -> String? {
        guard seemsToUseNetwork, let remedy = limits.remedy(for: .network) else { return nil }
        return "If it uses the network, as its text suggests: \(remedy)"
    }
}
