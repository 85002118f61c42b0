import ArgumentParser
import Foundation
import Glibc
import HistoryConfiguration
import HistoryControl
import HistoryDaemon
import Logging
import PersistentHistory

@main
struct Historyd: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "historyd",
        abstract: "Delivers to each program what other programs changed in an SQLite store.",
        discussion: """
            historyd watches SQLite stores, calls the hooks of plugins for each new transaction, merges it \
            into replicas and feeds, and deletes history that every consumer has processed.

            Exit statuses are those of sysexits(3): 64 usage, 66 store missing, 69 store not tracked, \
            70 internal, 74 input or output, 75 temporary, 77 permission, 78 configuration.
            """,
        version: HistoryVersion.current)

    @Option(help: "The configuration file.")
    var config = "/etc/historyd/historyd.json"

    @Flag(help: "Check the configuration and the manifests, report all errors, and exit.")
    var checkConfig = false

    @Flag(
        help: "Deliver everything that is recorded so far, and exit. Status 0 if all consumers have caught up.")
    var once = false

    @Option(
        help: ArgumentHelp(
            "The control socket. By default, control.sock in $RUNTIME_DIRECTORY or else in the state folder.",
            valueName: "path"), completion: .file())
    var controlSocket: String?

    func run() throws {
        // If a plugin closes its standard input, the write fails and the daemon keeps running.
        InheritedSignals.reset(endsAtBrokenPipe: false)
        ProcessMemory.keepSmall()
        MappedFiles.surviveLoss()
        DescriptorLimit.raise()
        try HistoryLoop.carry { try await serve() }
    }

    /// Hints at a missing group: a check by hand runs without the groups that the unit gives to the service.
    private static func unlessGrouped(_ path: String) -> String {
        guard geteuid() != 0, getenv("INVOCATION_ID") == nil, let group = StoreAccess.lackingGroup(for: path)
        else {
            return ""
        }
        return ", unless its unit has SupplementaryGroups=\(group), which this check lacks"
    }

    /// Hooks that were added with `--persist` join the configuration at the next start.
    private static func checkPersistedHooks(_ loaded: LoadedConfiguration, _ logger: Logger) async {
        let folder = StateFolderPath.path(environment: ProcessInfo.processInfo.environment)
        do {
            let problems = try await onPool {
                try PersistedHooks.problems(of: loaded, stateFolder: folder)
            }
            for problem in problems { logger.warning("\(problem)") }
        } catch {
            logger.notice("The kept hooks in \"\(folder)\" were not checked: \(error)")
        }
    }

    /// Names the files of a folder that would be refused, and counts those that would be served.
    private static func check(_ template: StoreTemplate, _ loaded: LoadedConfiguration, _ logger: Logger) async
    {
        let state = StateFolderPath.path(environment: ProcessInfo.processInfo.environment)
        let index = loaded.configuration.templates.firstIndex(of: template) ?? 0
        do {
            let (stores, refused) = try await onPool { () async throws in
                try template.check(index, in: loaded.configuration, stateFolder: state)
            }
            logger.notice("The folder \"\(template.folder)\" has \(stores, "store") now.")
            for reason in refused { logger.warning("\(reason)") }
        } catch {
            logger.warning(
                "The stores of \"\(template.name)\" would wait\(unlessGrouped(template.folder + "/")). \(error)"
            )
        }
    }

    private func serve() async throws {
        let level = LiveLogLevel(.info)
        LogOutput.suitable.bootstrap(level: level)
        let logger = Logger(label: "historyd")
        let loaded: LoadedConfiguration
        do {
            // A check also examines stores, which may wait for their disks.
            loaded = try await onPool { [config, checkConfig] in
                Result { () throws(ConfigurationErrors) in
                    try LoadedConfiguration.load(
                        file: config, checkingCommands: checkConfig, checkingStores: checkConfig)
                }
            }.get()
        } catch {
            for problem in error.problems { logger.report(.configurationInvalid, "\(problem)") }
            throw ExitCode(ExitStatus.configuration.rawValue)
        }
        if checkConfig {
            print("\(config) is valid: \(loaded.summary).")
            await Self.checkPersistedHooks(loaded, logger)
            for store in loaded.configuration.stores {
                // Examining a path may wait for its disk.
                let (problems, missing, condition) = await onPool {
                    (
                        StoreAccess.problems(of: store.path, isPolled: store.poll != nil),
                        StoreAccess.missing(store.path), Self.unlessGrouped(store.path)
                    )
                }
                if let missing, problems.isEmpty {
                    logger.notice("Store \"\(store.name)\" would wait. There is no \(missing) yet.")
                }
                for problem in problems {
                    logger.warning("Store \"\(store.name)\" would wait\(condition). \(problem)")
                }
            }
            for template in loaded.configuration.templates { await Self.check(template, loaded, logger) }
            return
        }
        do {
            let environment = ProcessInfo.processInfo.environment
            let path = StateFolderPath.path(environment: environment)
            let notifier = ServiceNotifier(logger: logger)
            let folder =
                once
                ? try StateFolder(path)
                : try await StateFolder.waiting(
                    for: path, logger: logger, notifier: notifier,
                    readOnlyLimit: environment["NOTIFY_SOCKET"] == nil ? nil : .seconds(10))
            let daemon = try Daemon(
                loaded, stateFolder: folder, logger: logger, level: level, notifier: notifier)
            if once {
                guard try await daemon.runOnce() else { throw ExitCode(ExitStatus.temporary.rawValue) }
            } else {
                let passed = PassedSockets(environment: environment)
                passed.closeOnExec()
                let control = try ControlListener(
                    path: controlSocket ?? ControlSocket.server(environment: environment), passed: passed)
                try await daemon.run(control: control, metrics: passed.metrics)
            }
        } catch let error as ConfigurationErrors {
            for problem in error.problems { logger.report(.configurationInvalid, "\(problem)") }
            throw ExitCode(ExitStatus.configuration.rawValue)
        } catch let error as HistoryError {
            let event: MessageCode =
                switch error.code {
                case .stateInUse: .stateInUse
                case _ where error.isOfState: .stateUnavailable
                case .controlSocket: .controlUnavailable
                default: .storeUnusable
                }
            logger.report(event, "\(error)")
            throw ExitCode(ExitStatus(error).rawValue)
        }
    }
}

extension LoadedConfiguration {
    var summary: String {
        let consumers = configuration.stores.reduce(0) { $0 + $1.consumers.count }
        let hooks = plugins.reduce(0) { $0 + $1.hooks.count }
        let templates = configuration.templates.isEmpty ? "" : ", folders \(configuration.templates.count)"
        return
            "stores \(configuration.stores.count)\(templates), consumers \(consumers), plugins \(plugins.count), hooks \(hooks)"
    }
}
