import ArgumentParser
import FoundationEssentials
import HistoryControl
import PersistentHistory

struct Hooks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hooks",
        abstract: "List, add and remove the running daemon's hooks.",
        subcommands: [List.self, Add.self, Remove.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "Show the hooks in the order in which they are called.")

        @OptionGroup var daemon: DaemonOptions

        func run() async throws {
            try await daemon.ask(.hooks, HookList.self) { list, output in
                var table = TextTable(
                    [
                        "KIND", "ORDER", "ID", "NAME", "ENTITY", "OPERATION", "STORE", "CONSUMER", "ORIGIN",
                        "CALLS", "FAILURES", "LAST ERROR",
                    ], names: [3])
                try table.write(
                    list.hooks.map { hook in
                        [
                            hook.kind, String(hook.position), hook.id, hook.name, hook.entity ?? "",
                            hook.operations?.joined(separator: ",") ?? "", hook.store ?? "",
                            hook.consumer ?? "",
                            hook.origin.rawValue, String(hook.calls), String(hook.failures),
                            hook.lastError ?? "",
                        ]
                    }, to: &output)
                try table.writeCut(to: &output)
            }
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Add the plugins and hooks of a manifest, and print their ids.",
            discussion:
                "They are called after the existing ones. Without --persist they are gone when the daemon ends."
        )

        @OptionGroup var daemon: DaemonOptions

        @Argument(help: "The manifest file; - reads standard input.", completion: .file())
        var file: String

        @Option(
            help: ArgumentHelp("Put its merge hooks before the merge hook with this id.", valueName: "id"),
            transform: HookArgument.id)
        var before: UUID?

        @Flag(help: "Keep the hooks over a restart.")
        var persist = false

        func run() async throws {
            let manifest = file == "-" ? try InputArgument.standardInput() : try InputArgument.file(file)
            let path = InputArgument.absolute(file == "-" ? "standard input" : file)
            let request = ControlCommand.addHooks(before: before, persist: persist, file: path)
            try await daemon.ask(request, HookChange.self, body: manifest) { change, output in
                try change.added?.write(to: &output)
            }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Remove hooks.",
            discussion: """
                Hooks from the configuration's manifests come back at the next reload or start. Status 66 \
                if there is no such hook.
                """)

        @OptionGroup var daemon: DaemonOptions

        @Argument(help: "The hook's id.", transform: HookArgument.id)
        var id: UUID?

        @Option(help: "With --operation: observers of this entity; * selects observers of all entities.")
        var entity: String?

        @Option(help: "With --entity: observers of this operation. They keep their other operations.")
        var operation: ChangeOperation?

        @Flag(help: "Every hook.")
        var all = false

        @Option(help: "Only observers, or only merge hooks.")
        var kind: HookKind?

        func validate() throws {
            let isPair = entity != nil && operation != nil
            let count = (id == nil ? 0 : 1) + (isPair ? 1 : 0) + (all ? 1 : 0)
            guard count == 1, isPair || entity == nil && operation == nil else {
                throw ValidationError("Name the hooks: an ID, or --entity and --operation, or --all.")
            }
        }

        func run() async throws {
            let which: HookSelection.Which
            if let id {
                which = .id(id)
            } else if let entity, let operation {
                which = .pair(entity: entity, operation: operation.rawValue)
            } else {
                which = .all
            }
            let selection = HookSelection(which, kind: kind?.rawValue)
            try await daemon.ask(.removeHooks(selection), HookChange.self) { change, output in
                try change.removed?.write(to: &output)
            }
        }
    }
}

enum HookKind: String, ExpressibleByArgument, CaseIterable {
    case observer, merge
}

enum HookArgument {
    static func id(_ text: String) throws -> UUID {
        guard let id = UUID(uuidString: text) else {
            throw ValidationError("\"\(text)\" is not a hook's id; `historyctl hooks list` shows the ids.")
        }
        return id
    }
}

extension [HookName] {
    fileprivate func write(to output: inout StandardOutput) throws {
        for hook in self { try output.writeLine("\(hook.id)  \(hook.kind)  \(hook.name)") }
    }
}
