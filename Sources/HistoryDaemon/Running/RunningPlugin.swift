import Glibc
import HistoryConfiguration
import HistoryPlugins
import Logging
import PersistentHistory

/// A plugin that answers calls, with what it was made from.
struct RunningPlugin: Sendable {
    var making: PluginMaking
    let endpoint: any HookEndpoint
    /// The long-running process, for a coprocess.
    let coprocess: CoprocessPlugin?
    var service: ServiceHost.HostedService?

    init(
        _ plugin: PluginConfiguration, _ making: PluginMaking, logger: Logger,
        report: @escaping @Sendable (PluginEvent) -> Void = { _ in }
    ) {
        self.making = making
        switch plugin.mode {
        case .coprocess:
            let coprocess = CoprocessPlugin(plugin, logger: logger, report: report)
            self.coprocess = coprocess
            endpoint = coprocess
        case .oneshot:
            coprocess = nil
            endpoint = OneshotPlugin(plugin, logger: logger)
        }
    }

    /// The files that its process has open for writing.
    func writtenFiles() async -> Set<[UInt64]> {
        guard let process = await coprocess?.processID else { return [] }
        return await onPool { OpenFiles.written(by: process) }
    }

    /// Ends the process, and waits until it has ended.
    func stop() async {
        guard let coprocess else { return }
        coprocess.stop()
        await service?.ended()
    }
}

/// What a plugin's process was made from: a change of it requires a new process.
struct PluginMaking: Equatable, Sendable {
    /// Without the hooks, and without what is done when they fail: a change of those requires no new process.
    private let plugin: PluginConfiguration
    /// The program, and the files among its arguments, such as a script.
    var files: [FileStamp] = []

    init(_ plugin: PluginConfiguration) {
        var plugin = plugin
        plugin.hooks = []
        plugin.policy = FailurePolicy()
        self.plugin = plugin
        // A program that is started for each call is always up to date.
        guard plugin.mode == .coprocess else { return }
        let command = plugin.command
        files =
            BlockingThreads.shared.result(within: Self.timeout) { command.compactMap { FileStamp($0) } } ?? []
    }

    /// Whether the same process can be used.
    ///
    /// - Parameter written: Files that the process writes itself, such as its log: their changes do not count.
    func isSame(as other: PluginMaking, besides written: Set<[UInt64]>) -> Bool {
        func program(_ making: PluginMaking) -> PluginMaking {
            var making = making
            making.files.removeAll { written.contains($0.id) }
            return making
        }
        return program(self) == program(other)
    }

    /// If the disk of a file does not answer in time, the file counts as missing. Once the disk answers, a
    /// reload restarts the process.
    private static let timeout: Duration = .milliseconds(500)

    /// Changes when a file is written or replaced.
    struct FileStamp: Equatable, Sendable {
        /// Its device and inode.
        let id: [UInt64]
        private let size: Int64
        /// The bytes of the `timespec`, to the nanosecond.
        private let modified: [UInt8]

        /// Nil for anything but a regular file.
        init?(_ path: String) {
            var status = stat()
            guard path.hasPrefix("/"), stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
                return nil
            }
            (id, size) = ([UInt64(status.st_dev), UInt64(status.st_ino)], Int64(status.st_size))
            modified = withUnsafeBytes(of: status.st_mtim) { Array($0) }
        }
    }
}

extension HookCatalog {
    /// The hooks, ready to be registered, with the endpoints that answer their calls.
    func hooks(calling running: [String: RunningPlugin]) -> [Hook] {
        let byHook = Dictionary(plugins.flatMap { plugin in plugin.hooks.map { ($0.id, plugin) } }) {
            first, _ in first
        }
        return hooks.compactMap { hook in
            guard let plugin = byHook[hook.id], let endpoint = running[plugin.name]?.endpoint else {
                return nil
            }
            return hook.hook(calling: endpoint, policy: plugin.policy)
        }
    }
}
