/// One store of a configuration: what is usual, unless said otherwise; its parts are JSON.
struct StoreSetup {
    var name = "contacts"
    var path = "contacts.sqlite"
    var entities: String? = #"{"person": {"preserve": ["name", "email"]}, "item": {}}"#
    var authors = #"[{"name": "MainApp"}]"#
    /// Further members: `"clean": {…}`.
    var more = ""

    /// Authors with nothing but names, as in `["MainApp", "Widget"]`.
    static func named(_ authors: String...) -> String {
        "[" + authors.map { #"{"name": "\#($0)"}"# }.joined(separator: ", ") + "]"
    }

    /// One consumer with a replica of everything in `replica.sqlite`.
    static func mirrored(_ author: String = "Mirror", entities: String? = nil) -> String {
        let only = entities.map { #", "entities": \#($0)"# } ?? ""
        return
            #"[{"name": "\#(author)", "contexts": [{"name": "view", "kind": "replica", "path": "replica.sqlite"\#(only)}]}]"#
    }

    var json: String {
        var members = [#""name": "\#(name)""#, #""path": "\#(path)""#, #""authors": \#(authors)"#]
        if let entities { members.append(#""entities": \#(entities)"#) }
        if !more.isEmpty { members.append(more) }
        return "{\(members.joined(separator: ", "))}"
    }
}

/// One plugin of a manifest.
struct PluginSetup {
    var name = "audit"
    var behaviour = Behaviour.record
    /// Instead of the behaviour's.
    var command: [String]?
    var mode = "coprocess"
    /// Of the plugin's process, beside what the workbench gives it.
    var environment: [String: String] = [:]
    /// Further members: `"timeout": "1s"`.
    var more = ""
    /// Each hook as JSON.
    var hooks = [#"{"name": "all", "kind": "observer"}"#]

    /// What the plugin is: see `Plugins`.
    enum Behaviour: String, CaseIterable {
        /// In Python, as coprocess or oneshot.
        case record = "record.py"
        /// The same for oneshot alone, in sh.
        case recordInShell = "record.sh"

        /// Named, so that the file is not executed itself: while another test starts a program, that
        /// may hold it open for writing for a moment, and "text file busy" is the answer.
        var interpreter: String { self == .record ? Products.python : "/bin/sh" }
    }

    func json(folder: String) -> String {
        var environment = environment
        environment["BENCH"] = folder
        // By which a process is told from others of the same program.
        environment["PLUGIN"] = name
        let variables = environment.sorted { $0.key < $1.key }.map { #""\#($0.key)": "\#($0.value)""# }
        let command = command ?? [behaviour.interpreter, "\(folder)/\(behaviour.rawValue)", mode]
        var members = [
            #""name": "\#(name)""#,
            #""command": [\#(command.map { #""\#($0)""# }.joined(separator: ", "))]"#,
            #""mode": "\#(mode)""#,
            #""environment": {\#(variables.joined(separator: ", "))}"#,
        ]
        if !more.isEmpty { members.append(more) }
        members.append(#""hooks": [\#(hooks.joined(separator: ", "))]"#)
        return "{\(members.joined(separator: ", "))}"
    }
}
