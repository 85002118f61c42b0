import ArgumentParser
import Glibc
import HistoryConfiguration
import PersistentHistory

struct Setup: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "setup",
        abstract: "Let the service serve a store and call a hook.",
        discussion: """
            Prints a script for root: rights of the daemon's user on the store, drop-ins that open the unit's \
            sandbox for it, the hook's manifest, the configuration, and the commands that start the service. \
            Each file is new; nothing that is there is changed. With --apply, the script is run.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Option(
        help: "The hook: a program that is called for each transaction. It is copied.", completion: .file())
    var hook: String

    @Option(help: "The entity that the hook is called for; by default, all.")
    var entity: String?

    @Option(help: "oneshot: started for each call. coprocess: started once.")
    var mode = PluginConfiguration.Mode.oneshot

    @Option(help: "An instance of the service, historyd@NAME, instead of the service itself.")
    var instance: String?

    @Option(
        help: "An instance that runs as this user, and has its name: the store's owner needs no further rights."
    )
    var user: String?

    @Flag(help: "Run the script, instead of printing it.")
    var apply = false

    func validate() throws {
        if instance != nil && user != nil {
            throw ValidationError("--instance and --user exclude each other: --user names an instance as well.")
        }
        for name in [instance, user].compactMap(\.self) where !Self.isUnitName(name) {
            throw ValidationError(
                "\"\(name)\" cannot be an instance's name: use letters, digits, -, _ and dots.")
        }
    }

    /// Whether the name needs no escaping in a unit's name and in a path.
    private static func isUnitName(_ name: String) -> Bool {
        !name.isEmpty && !name.hasPrefix(".") && name != "nats"
            && name.utf8.allSatisfy { byte in
                UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || "0123456789-_.".utf8.contains(byte)
            }
    }

    func run() throws {
        let signals = ForwardedSignals()
        let script = try plan().script
        guard apply else {
            var output = StandardOutput()
            try output.write(Array(script.utf8))
            try output.flush()
            return
        }
        guard geteuid() == 0 else {
            throw Self.refusal(
                .noPermission, "Only root can set up the service: run it with sudo, or without --apply.")
        }
        throw ExitCode(try ForegroundCommand(["/bin/sh", "-c", script], signals).run())
    }

    private func plan() throws -> SetupPlan {
        let (path, program) = (try Self.existing(store), try Self.existing(hook))
        if let user, getpwnam(user) == nil { throw ValidationError("There is no user \"\(user)\".") }
        let name = instance ?? user
        let configuration = SetupPlan.configuration(ofInstance: name)
        let isThere = access(configuration, F_OK) == 0
        let loaded = isThere ? try Self.load(configuration) : nil
        // The sample's store, for instance, right after the installation.
        for store in loaded?.configuration.stores ?? [] where access(store.path, F_OK) != 0 {
            Historyctl.complain(
                "note: store \"\(store.name)\" of \(configuration) is not there: \(store.path). Until it is, or is taken out, health fails."
            )
        }
        let hookName = Self.stem(of: program)
        let plan = SetupPlan(
            store: Self.store(path, in: loaded, for: hookName),
            hook: .init(name: hookName, file: program, entity: entity, mode: mode), instance: name,
            hasConfiguration: isThere,
            deployment: try DeploymentPlan(
                store: path, user: user ?? "historyd", runsAsUser: user != nil,
                unit: SetupPlan.unit(ofInstance: name)))
        for file in plan.newFiles where access(file, F_OK) == 0 {
            throw Self.refusal(
                .configuration,
                "\"\(file)\" is there already, and is not overwritten. Name the hook's file otherwise, or remove what was set up before."
            )
        }
        return plan
    }

    private static func refusal(_ status: ExitStatus, _ text: String) -> ExitCode {
        Historyctl.complain(text)
        return ExitCode(status.rawValue)
    }

    /// The absolute path, without links.
    private static func existing(_ path: String) throws -> String {
        guard let real = StorePath.withoutLinks(path) else {
            throw refusal(.noInput, "\"\(path)\" cannot be found: \(String(cString: strerror(errno))).")
        }
        return real
    }

    private static func load(_ file: String) throws -> LoadedConfiguration {
        do {
            return try LoadedConfiguration.load(file: file)
        } catch {
            for problem in error.problems { Historyctl.complain("\(problem)") }
            throw refusal(.configuration, "The configuration \"\(file)\" is refused as it is: mend it first.")
        }
    }

    /// The store as configured, with its first consumer; otherwise with a free name.
    private static func store(
        _ path: String, in loaded: LoadedConfiguration?, for hook: String
    ) -> SetupPlan.Store {
        let stores = loaded?.configuration.stores ?? []
        if let known = stores.first(where: { $0.path == path }), let consumer = known.authors.first?.name {
            return .init(name: known.name, path: path, consumer: consumer, isConfigured: true)
        }
        let stem = stem(of: path)
        let names = [stem] + (2...).lazy.prefix(1000).map { "\(stem)-\($0)" }
        let free = names.first { name in !stores.contains { $0.name == name } } ?? stem
        return .init(name: free, path: path, consumer: hook, isConfigured: false)
    }

    /// A file's name without its extension, reduced to characters that need no quotes anywhere.
    private static func stem(of path: String) -> String {
        let name = path.split(separator: "/").last ?? ""
        let stem = name.split(separator: ".").first ?? "hook"
        return String(
            stem.unicodeScalars.map { scalar in
                scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
                    ? Character(scalar) : "-"
            })
    }
}

extension PluginConfiguration.Mode: ExpressibleByArgument {}
