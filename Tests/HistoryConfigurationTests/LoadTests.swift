import FoundationEssentials
import Glibc
import PersistentHistory
import Testing
import TestSupport

@testable import HistoryConfiguration

/// What loading a folder's `historyd.json` gives: the problems, with the folder left out.
private func problems(_ folder: TemporaryFolder) -> [String] {
    do throws(ConfigurationErrors) {
        _ = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        return []
    } catch {
        return error.description.split(separator: "\n").map {
            String($0).replacing(folder.path + "/", with: "")
        }
    }
}

private let oneStore = #"{"version": 1, "stores": [{"name": "s", "path": "s.db", "authors": [{"name": "A"}]}]}"#

@Suite struct LoadTests {
    /// `historyctl status` shows it to somebody in another folder.
    @Test func thePathOfAConfigurationIsAbsolute() throws {
        let folder = try TemporaryFolder()
        try folder.write("historyd.json", oneStore)
        let current = FileManager.default.currentDirectoryPath
        let depth = current.split(separator: "/").count
        let relative = String(repeating: "../", count: depth) + folder.file("historyd.json").dropFirst()
        #expect(try LoadedConfiguration.load(file: relative).path == "\(current)/\(relative)")
    }

    @Test func readsAllThatAConfigurationSays() throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "historyd.json",
            #"""
            {
              "version": 1,
              "stores": [{
                "name": "contacts", "path": "/srv/c.sqlite",
                "entities": { "person": { "preserve": ["name", "email"] }, "item": {} },
                "authors": [
                  { "name": "MainApp", "contexts": [
                    { "name": "view", "kind": "replica", "path": "data/../view.sqlite", "entities": ["person"] },
                    { "name": "live", "kind": "feed", "window": 7, "largeIntegers": "text" }, { "name": "all", "kind": "feed" },
                    { "name": "index", "kind": "plugin", "plugin": "all", "entities": ["item"] }] },
                  { "name": "Batch", "batch": true }
                ],
                "unlistedAuthors": "ignore", "cleanUnlisted": true, "includingMirroring": true, "mirroringAuthors": ["Mirror"],
                "clean": { "strategy": "byNotification", "times": 3, "maximumDuration": 2592000 },
                "poll": "500ms", "autoStart": false
              }, { "name": "notes", "path": "notes.sqlite", "clean": { "strategy": "byDuration", "seconds": "7d" } }],
              "plugins": ["plugins/one.json"],
              "logLevel": "debug",
              "stopTimeout": "90s"
            }
            """#)
        try folder.write(
            "plugins/one.json",
            #"""
            { "version": 1, "plugins": [
              { "name": "all", "command": ["bin/all", "--x"], "mode": "coprocess", "environment": { "A": "1" },
                "timeout": "5s", "window": 8, "largeIntegers": "text", "retry": { "attempts": 2, "initialDelay": 0.2, "maximumDelay": "1m" }, "onFailure": "skip",
                "hooks": [
                  { "name": "people", "kind": "observer", "entity": "person", "operation": ["insert", "delete"],
                    "store": "contacts", "consumer": "MainApp" },
                  { "name": "last", "kind": "merge" },
                  { "name": "first", "kind": "merge", "before": "all/last" }] },
              { "name": "plain", "command": ["/bin/true"], "hooks": [{ "name": "any", "kind": "observer", "entity": "*" }] }
            ] }
            """#)
        let loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))

        let contacts = StoreConfiguration(
            name: "contacts", path: "/srv/c.sqlite",
            entities: [
                TrackedEntity(name: "person", preserve: ["name", "email"]), TrackedEntity(name: "item"),
            ],
            authors: [
                AuthorConfiguration(
                    name: "MainApp",
                    contexts: [
                        ContextConfiguration(
                            name: "view", kind: .replica(path: folder.file("data/../view.sqlite")),
                            entities: ["person"]),
                        ContextConfiguration(name: "live", kind: .feed(window: 7, largeIntegers: .text)),
                        ContextConfiguration(name: "all", kind: .feed(window: 100)),
                        ContextConfiguration(name: "index", kind: .plugin(name: "all"), entities: ["item"]),
                    ]),
                AuthorConfiguration(name: "Batch", isBatch: true),
            ],
            unlistedAuthors: .ignore, cleansUnlisted: true, includingMirroring: true,
            mirroringAuthors: ["Mirror"],
            clean: CleanConfiguration(
                strategy: .byNotification(times: 3), maximumDuration: .seconds(2_592_000)),
            poll: .milliseconds(500), autoStart: false)
        let notes = StoreConfiguration(
            name: "notes", path: folder.file("notes.sqlite"),
            clean: CleanConfiguration(strategy: .byDuration(.seconds(604_800))))
        #expect(
            loaded.configuration
                == DaemonConfiguration(
                    stores: [contacts, notes], plugins: [folder.file("plugins/one.json")], logLevel: .debug,
                    stopTimeout: .seconds(90)))
        #expect(contacts.consumers.map(\.name) == ["MainApp"])
        #expect(loaded.configuration.contextPlugins == ["all"])

        let all = PluginConfiguration(
            name: "all", command: [folder.file("plugins/bin/all"), "--x"], mode: .coprocess,
            environment: ["A": "1"],
            timeout: .seconds(5), window: 8, largeIntegers: .text,
            policy: FailurePolicy(
                attempts: 2, initialDelay: .milliseconds(200), maximumDelay: .seconds(60),
                afterLastAttempt: .skip),
            hooks: [
                HookConfiguration(
                    fullName: "all/people", kind: .observer, entity: "person", operations: [.insert, .delete],
                    store: "contacts", consumer: "MainApp"),
                HookConfiguration(fullName: "all/last", kind: .merge),
                HookConfiguration(fullName: "all/first", kind: .merge, before: "all/last"),
            ])
        let plain = PluginConfiguration(
            name: "plain", command: ["/bin/true"],
            hooks: [HookConfiguration(fullName: "plain/any", kind: .observer)])
        #expect(loaded.plugins == [all, plain])
        #expect(MergeOrder.pipeline(of: loaded.plugins).map(\.fullName) == ["all/first", "all/last"])
        #expect(loaded.files == [folder.file("historyd.json"), folder.file("plugins/one.json")])
        #expect(plain.timeout == .seconds(30) && plain.mode == .oneshot && plain.policy == FailurePolicy())
    }

    @Test func readsDropInsAndManifestsInTheOrderOfTheirBytes() throws {
        let folder = try TemporaryFolder()
        try folder.write("historyd.json", #"{"version": 1, "plugins": ["m"], "logLevel": "error"}"#)
        // In bytes "B" comes before "a", and a decomposed "é" before a composed one.
        for (name, level) in [("B", "notice"), ("a", "warning"), ("e\u{301}", "trace"), ("\u{E9}", "critical")]
        {
            try folder.write(
                "conf.d/\(name).json",
                #"{"version": 1, "stores": [{"name": "\#(level)", "path": "\#(level)"}], "plugins": ["\#(level).json"], "logLevel": "\#(level)"}"#
            )
            try folder.write("conf.d/\(level).json.d/x", "")
            try folder.write("conf.d/\(level).json", #"{"version": 1, "plugins": []}"#)
            try folder.write(
                "m/\(name).json",
                #"{"version": 1, "plugins": [{"name": "\#(level)", "command": ["/p"], "hooks": []}]}"#)
        }
        for ignored in [".hidden.json", "README", "x.json~"] {
            try folder.write("conf.d/\(ignored)", "no JSON")
            try folder.write("m/\(ignored)", "no JSON")
        }
        let loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        #expect(loaded.configuration.logLevel == .critical)
        #expect(loaded.configuration.stores.map(\.name) == ["notice", "warning", "trace", "critical"])
        #expect(loaded.configuration.stores.first?.path == folder.file("conf.d/notice"))
        #expect(
            loaded.configuration.plugins
                == [folder.file("m")]
                + ["notice", "warning", "trace", "critical"].map { folder.file("conf.d/\($0).json") })
        #expect(loaded.plugins.map(\.name) == ["notice", "warning", "trace", "critical"])
    }

    @Test func findsWhatSeveralFilesContradict() throws {
        let folder = try TemporaryFolder()
        try folder.write("historyd.json", oneStore)
        try folder.write(
            "conf.d/10.json",
            """
            {"stores": [
            {"name": "s", "path": "../s.db"},
            {"name": "t", "path": "/t", "authors": [{"name": "B", "contexts": [{"name": "v", "kind": "replica", "path": "../s.db"}]}]}],
            "plugins": ["p.manifest", "q.manifest", "none"]}
            """)
        let manifest = #"{"version": 1, "plugins": [{"name": "p", "command": ["/p"], "hooks": []}]}"#
        try folder.write("conf.d/p.manifest", manifest)
        try folder.write("conf.d/q.manifest", manifest)
        #expect(
            problems(folder) == [
                "conf.d/10.json:1:1: version: missing, expected 1, the version of the format",
                "conf.d/10.json:2:10: stores[0].name: store \"s\" is already given at historyd.json:1:36",
                "conf.d/10.json:2:23: stores[0].path: the store's file \"s.db\" is already given at historyd.json:1:49",
                "conf.d/10.json:3:109: stores[1].authors[0].contexts[0].path: a replica cannot use a store's file; the store is at historyd.json:1:49",
                "conf.d/10.json:4:41: plugins[2]: \"conf.d/none\" cannot be read: No such file or directory. Create it, or configure another path",
                "conf.d/q.manifest:1:37: plugins[0].name: plugin \"p\" is already given at conf.d/p.manifest:1:37",
            ])
    }

    @Test func checksManifestsAgainstTheConfiguration() throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "historyd.json", oneStore.replacing("\"stores\"", with: "\"plugins\": [\"m\"], \"stores\""))
        func hook(_ keys: String) -> String {
            #"{"version": 1, "plugins": [{"name": "NAME", "command": ["/p"], "hooks": [{"name": "h", "kind": "merge", \#(keys)}]}]}"#
        }
        try folder.write("m/a.json", hook(#""store": "t""#).replacing("NAME", with: "a"))
        try folder.write("m/b.json", hook(#""consumer": "C""#).replacing("NAME", with: "b"))
        try folder.write("m/c.json", hook(#""before": "d/h""#).replacing("NAME", with: "c"))
        try folder.write("m/d.json", hook(#""before": "e/h""#).replacing("NAME", with: "d"))
        #expect(
            problems(folder) == [
                "m/a.json:1:111: plugins[0].hooks[0].store: unknown store \"t\". Known: \"s\"",
                "m/b.json:1:114: plugins[0].hooks[0].consumer: unknown consumer \"C\". Known: \"A\"",
                "m/d.json:1:112: plugins[0].hooks[0].before: unknown merge hook \"e/h\"; did you mean \"a/h\"? Known: \"a/h\", \"b/h\", \"c/h\"",
            ])

        // What may be missing only because of a mistake elsewhere is not a mistake of its own.
        try folder.write("historyd.json", #"{"version": 1, "plugins": ["m"], "stores": [{"name": "t"}]}"#)
        try folder.write("m/e.json", "{")
        #expect(
            problems(folder) == [
                "historyd.json:1:45: stores[0].path: missing, expected a path, or a \"folder\" of stores",
                "m/e.json:1:2: expected a key in double quotes, found the end of the file",
            ])
    }

    @Test func checksThePluginsOfContextsAgainstTheManifests() throws {
        let folder = try TemporaryFolder()
        func context(_ name: String, _ plugin: String) -> String {
            #"{"name": "\#(name)", "kind": "plugin", "plugin": "\#(plugin)"}"#
        }
        try folder.write(
            "historyd.json",
            """
            {"version": 1, "plugins": ["m.json"], "stores": [{"name": "s", "path": "s.db", "authors": [{"name": "A", "contexts": [
            \(context("a", "search")), \(context("b", "serch")),
            \(context("c", "audit"))]}]}]}
            """)
        let manifest = #"""
            {"version": 1, "plugins": [{"name": "search", "command": ["/s"], "mode": "coprocess", "hooks": []},
            {"name": "audit", "command": ["/a"], "hooks": []}]}
            """#
        try folder.write("m.json", manifest)
        #expect(
            problems(folder) == [
                "historyd.json:2:96: stores[0].authors[0].contexts[1].plugin: unknown plugin \"serch\"; did you mean \"search\"? Known: \"search\", \"audit\"",
                "historyd.json:3:43: stores[0].authors[0].contexts[2].plugin: expected a plugin with \"mode\": \"coprocess\"; \"audit\" is started for each call, and cannot keep a context",
            ])
        // What may be missing only because of a mistake elsewhere is not a mistake of its own.
        try folder.write("m.json", manifest.replacing(#""name": "search", "#, with: ""))
        #expect(
            problems(folder).filter { $0.contains("unknown") } == [])
    }

    @Test func saysWhyAFileCanNotBeRead() throws {
        let folder = try TemporaryFolder()
        #expect(
            problems(folder) == [
                "historyd.json: cannot be read: No such file or directory. Create it, or configure another path; historyd.json(5) describes the file, --config selects another"
            ])
        try folder.write("conf.d/a.json/x", "")
        try folder.write("conf.d/b.json", "{\"version\": 2, \"plugins\": [\"c\", \"big\"]}")
        try folder.write("conf.d/c/d.json/x", "")
        try folder.write("conf.d/big", String(repeating: " ", count: ConfigurationFile.maximumSize + 1))
        try folder.write("historyd.json", oneStore)
        #expect(
            problems(folder) == [
                "conf.d/a.json: cannot be read: Is a directory. Name a file",
                "conf.d/b.json:1:13: version: expected 1, the version of the format, found 2",
                "conf.d/b.json:1:28: plugins[0]: \"conf.d/c/d.json\" cannot be read: Is a directory. Name a file",
                "conf.d/b.json:1:33: plugins[1]: \"conf.d/big\" cannot be read: Larger than 4194304 bytes. Split it into several files",
            ])
    }

    @Test func knowsAFileByEachOfItsPaths() throws {
        let folder = try TemporaryFolder()
        try folder.write("real/s.db", "")
        #expect(symlink("real", folder.file("link")) == 0)
        let paths = ["real/s.db", "link/s.db", "./real/../link//s.db"].map(folder.file)
        #expect(Set(paths.map(FileIdentity.of)).count == 1)
        // Who may write a replica's folder makes it no other's by a link in its place.
        #expect(symlink(folder.file("elsewhere"), folder.file("real/a.db")) == 0)
        #expect(symlink(folder.file("elsewhere"), folder.file("real/b.db")) == 0)
        #expect(FileIdentity.ofName(folder.file("real/a.db")) != FileIdentity.ofName(folder.file("real/b.db")))
        #expect(
            FileIdentity.ofName(folder.file("real/a.db")) == FileIdentity.ofName(folder.file("link/./a.db")))
        // Links of others are not followed: what they lead to is another matter.
        if geteuid() == 0 {
            #expect(symlink("s.db", folder.file("real/theirs.db")) == 0)
            #expect(FileIdentity.of(folder.file("real/theirs.db")) == FileIdentity.of(folder.file("real/s.db")))
            #expect(lchown(folder.file("real/theirs.db"), 65534, 65534) == 0)
            #expect(FileIdentity.of(folder.file("real/theirs.db")) != FileIdentity.of(folder.file("real/s.db")))
        }
        let missing = ["real/new/t.db", "link/new/t.db", "link/./new/x/../t.db"].map(folder.file)
        #expect(Set(missing.map(FileIdentity.of)).count == 1)
        #expect(FileIdentity.of(folder.file("real/t.db")) != FileIdentity.of(folder.file("t.db")))
        // A name may begin with an accent, which `String` would put on the slash before it.
        let accented = folder.file("new/\u{301}x/../t.db")
        #expect(FileIdentity.of(accented) == FileIdentity.of(folder.file("new/t.db")))
    }

    @Test func findsRelativeFilesFromTheWorkingDirectory() {
        let current = FileManager.default.currentDirectoryPath
        #expect(ConfigurationFile.folder(of: "historyd.json") == current)
        #expect(ConfigurationFile.folder(of: "etc/historyd.json") == current + "/etc")
        #expect(ConfigurationFile.folder(of: "./historyd.json") == current)
        #expect(ConfigurationFile.folder(of: "/etc/historyd.json") == "/etc")
        #expect(ConfigurationFile.folder(of: "/historyd.json") == "")
        #expect(ConfigurationFile.sibling("conf.d", of: "historyd.json") == "conf.d")
        #expect(ConfigurationFile.sibling("conf.d", of: "/etc/historyd.json") == "/etc/conf.d")
    }
}
