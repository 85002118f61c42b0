import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import Logging
import PersistentHistory

/// Makes a call to a hook to show what the plugin does with it. The call runs in its own process, and does not
/// disturb the plugin's own.
struct SampleCall {
    let hook: Hook
    private let running: RunningPlugin
    /// What the plugin writes to standard error.
    private let errors = Locked<[String]>([])

    init(_ hook: HookConfiguration, of plugin: PluginConfiguration) {
        let lines = errors
        running = RunningPlugin(
            plugin, PluginMaking(plugin), logger: Logger(label: "test") { _ in CapturedErrors(lines: lines) })
        self.hook = hook.hook(calling: running.endpoint, policy: plugin.policy)
    }

    func make(_ header: HookCallHeader, _ call: String) async -> PluginTest {
        let start = ContinuousClock.now
        let answer: Result<String?, HookFailure>
        if let coprocess = running.coprocess {
            answer = await withTaskGroup(of: Void.self) { group in
                group.addTask { await coprocess.run() }
                let answer = await self.answer(header, call)
                coprocess.stop()
                await group.waitForAll()
                return answer
            }
        } else {
            answer = await self.answer(header, call)
        }
        var test = PluginTest(hook: header.hook, call: call)
        test.seconds = Double(start.duration(to: .now).microseconds) / 1_000_000
        test.errors = errors.withLock { $0 }
        switch answer {
        case .success(let result): (test.succeeded, test.result) = (true, result)
        case .failure(let failure): (test.succeeded, test.problem) = (false, failure.message)
        }
        return test
    }

    private func answer(_ header: HookCallHeader, _ call: String) async -> Result<String?, HookFailure> {
        if let coprocess = running.coprocess {
            do throws(HookFailure) { try await coprocess.waitUntilStarted() } catch { return .failure(error) }
        }
        return await hook.call(header, hook.method, kept: call).map { $0?.verdict.rawValue }
    }
}

/// Collects what a plugin writes to standard error.
private struct CapturedErrors: LogHandler {
    let lines: Locked<[String]>
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel = Logger.Level.info

    /// More lines do not help an operator.
    private static let most = 100

    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        lines.withLock { if $0.count < Self.most { $0.append("\(event.message)") } }
    }
}
