import FoundationEssentials
import HistoryControl
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryConfiguration
@testable import HistoryDaemon

/// Which hooks there are after any sequence of additions and removals.
@Suite struct HookCatalogTests {
    private static func plugin(_ name: String, _ hooks: HookConfiguration...) -> PluginConfiguration {
        PluginConfiguration(name: name, command: ["/bin/true"], hooks: hooks)
    }

    private static func observer(
        _ name: String, _ entity: String? = "person", _ operations: Set<ChangeOperation> = [.insert]
    ) -> HookConfiguration {
        HookConfiguration(fullName: name, kind: .observer, entity: entity, operations: operations)
    }

    private static func merge(_ name: String, before: String? = nil) -> HookConfiguration {
        HookConfiguration(fullName: name, kind: .merge, before: before)
    }

    private static var catalog: HookCatalog {
        var catalog = HookCatalog(manifests: [
            plugin("p", observer("p/a"), observer("p/b", "person", [.insert, .update]), merge("p/m")),
            plugin("q", observer("q/all", nil, Set(ChangeOperation.allCases)), merge("q/m", before: "p/m")),
        ])
        catalog.add([plugin("r", observer("r/a"), merge("r/m", before: "q/m"))], origin: .added)
        return catalog
    }

    private static func names(_ catalog: HookCatalog) -> [String] { catalog.hooks.map(\.fullName) }

    @Test func theOrderIsThatOfRegistrationButForBefore() {
        #expect(Self.names(Self.catalog) == ["p/a", "p/b", "q/all", "r/a", "r/m", "q/m", "p/m"])
    }

    @Test func aPluginThatKeepsAContextIsNeededWithoutAHook() {
        let plugins = [Self.plugin("p"), Self.plugin("q"), Self.plugin("r", Self.observer("r/a"))]
        var catalog = HookCatalog(manifests: plugins, keepingContexts: ["q"])
        #expect(catalog.needed.map(\.name) == ["q", "r"])
        _ = catalog.remove(HookSelection(.all))
        #expect(catalog.needed.map(\.name) == ["q"])
    }

    @Test func aStoreMayCallThePluginsOfItsHooksAndContexts() {
        let everywhere = Self.observer("all/a")
        var elsewhere = Self.observer("other/a")
        elsewhere.store = "other"
        let catalog = HookCatalog(
            manifests: [
                Self.plugin("all", everywhere), Self.plugin("other", elsewhere), Self.plugin("keeper"),
            ],
            keepingContexts: ["keeper"])
        let context = ContextConfiguration(name: "view", kind: .plugin(name: "keeper"), entities: nil)
        let author = AuthorConfiguration(name: "Main", contexts: [context])
        let keeping = StoreConfiguration(name: "keeping", path: "/a", authors: [author])
        #expect(catalog.plugins(calledBy: keeping) == ["all", "keeper"])
        #expect(catalog.plugins(calledBy: StoreConfiguration(name: "other", path: "/b")) == ["all", "other"])
    }

    @Test func aPairIsTakenFromThoseThatHaveIt() {
        var catalog = Self.catalog
        let removed = catalog.remove(HookSelection(.pair(entity: "person", operation: "insert")))
        #expect(removed.map(\.fullName) == ["p/a", "p/b", "r/a"])
        #expect(Self.names(catalog) == ["p/b", "q/all", "r/m", "q/m", "p/m"])
        #expect(catalog.hooks.first?.operations == [.update])
        let none = catalog.remove(HookSelection(.pair(entity: "person", operation: "insert")))
        #expect(none.isEmpty)
        let every = catalog.remove(HookSelection(.pair(entity: "*", operation: "delete")))
        #expect(every.map(\.fullName) == ["q/all"])
    }

    @Test func whatStoodBeforeARemovedHookKeepsItsPlace() throws {
        var catalog = Self.catalog
        _ = catalog.remove(HookSelection(.id(Self.merge("p/m").id)))
        #expect(Self.names(catalog).suffix(2) == ["r/m", "q/m"])
        _ = catalog.remove(HookSelection(.id(Self.merge("q/m").id)))
        #expect(Self.names(catalog).last == "r/m")
        // What was added must stand alone, to be kept or to be read again.
        #expect(catalog.added.flatMap { $0.plugin.hooks.compactMap(\.before) }.isEmpty)
    }

    @Test func aPluginWithoutHooksIsNotNeeded() {
        var catalog = Self.catalog
        _ = catalog.remove(HookSelection(.all, kind: "observer"))
        #expect(catalog.needed.map(\.name) == ["p", "q", "r"])
        _ = catalog.remove(HookSelection(.all))
        #expect(catalog.needed.isEmpty && catalog.hooks.isEmpty && catalog.added.isEmpty)
        // It may come back under the same name.
        catalog.add([Self.plugin("r", Self.observer("r/a"))], origin: .persisted)
        #expect(Self.names(catalog) == ["r/a"])
    }

    /// Removing hooks in any order, one by one, leaves the others in the order they had.
    @Test(arguments: 0..<20) func theOthersKeepTheirOrder(_ round: Int) {
        var generator = SystemRandomNumberGenerator()
        var catalog = Self.catalog
        var expected = Self.names(catalog)
        for name in expected.shuffled(using: &generator) {
            let hook = catalog.hooks.first { $0.fullName == name }
            let removed = catalog.remove(HookSelection(.id(hook?.id ?? UUID())))
            #expect(removed.map(\.fullName) == [name])
            expected.removeAll { $0 == name }
            #expect(Self.names(catalog).filter { $0.hasSuffix("/a") } == expected.filter { $0.hasSuffix("/a") })
            #expect(Set(Self.names(catalog)) == Set(expected), "\(name)")
        }
    }
}

/// What is kept reads as what it was.
@Suite struct PersistedHooksTests {
    private static let configuration = DaemonConfiguration(stores: [
        StoreConfiguration(name: "s\"t", path: "/s", authors: [AuthorConfiguration(name: "Ä")])
    ])

    private static func plugin(_ name: String) -> PluginConfiguration {
        PluginConfiguration(
            name: name, command: ["/usr/bin/x", "--a b", "\"\\ü\n"], mode: .coprocess,
            environment: ["A": "1", "B": "\t\u{1}"], credentials: ["SECRET": "webhook.token"],
            timeout: .milliseconds(1500), window: 7,
            policy: FailurePolicy(
                attempts: 7, initialDelay: .milliseconds(1), maximumDelay: .seconds(90), afterLastAttempt: .skip
            ),
            hooks: [
                HookConfiguration(
                    fullName: "\(name)/o", kind: .observer, entity: "per\"son", operations: [.delete, .insert],
                    store: "s\"t", consumer: "Ä"),
                HookConfiguration(fullName: "\(name)/e", kind: .observer),
                HookConfiguration(fullName: "\(name)/n", kind: .merge),
                HookConfiguration(fullName: "\(name)/m", kind: .merge, consumer: "Ä", before: "\(name)/n"),
            ])
    }

    @Test func aManifestOfOursReadsAsThePluginThatItWasMadeFrom() throws {
        let plugin = Self.plugin("p")
        let read = try PluginConfiguration.read(
            manifest: plugin.manifest, file: "/elsewhere/x.json", for: Self.configuration, besides: [])
        #expect(read == [plugin])
    }

    @Test func filesComeAndGoWithWhatIsKept() throws {
        let folder = try TemporaryFolder()
        let persistedHooks = PersistedHooks(stateFolder: folder.path)
        func load() throws -> [PluginConfiguration] {
            try persistedHooks.load(for: Self.configuration, besides: []) { throw $1 }
        }
        #expect(try load() == [])
        let (z, a, dots) = (Self.plugin("z"), Self.plugin("a"), Self.plugin("..-.json"))
        try persistedHooks.keep([z])
        try persistedHooks.keep([z, a, dots])
        #expect(try load() == [z, a, dots], "in the order in which they came")
        var smaller = a
        smaller.hooks.removeLast()
        try persistedHooks.keep([z, smaller])
        #expect(try load() == [z, smaller])
        try persistedHooks.keep([smaller])
        try persistedHooks.keep([smaller, z])
        #expect(try load() == [smaller, z])
        try persistedHooks.keep([])
        #expect(try persistedHooks.files().isEmpty)
    }

    @Test func theOrderIsThatOfTheNumbersHoweverLong() throws {
        let folder = try TemporaryFolder()
        let persistedHooks = PersistedHooks(stateFolder: folder.path)
        try persistedHooks.keep([Self.plugin("first")])
        let only = try #require(persistedHooks.files().first)
        try FileManager.default.moveItem(
            atPath: only, toPath: only.replacing("0001-", with: "9999-"))
        try persistedHooks.keep([Self.plugin("first"), Self.plugin("second")])
        let names = try persistedHooks.load(for: Self.configuration, besides: []) { throw $1 }.map(\.name)
        #expect(names == ["first", "second"])
    }

    /// A manifest was edited since: one that has the same plugin now, and one to which another referred.
    @Test func whatDoesNotFitAnyMoreIsMovedAside() throws {
        let folder = try TemporaryFolder()
        let hooks = PersistedHooks(stateFolder: folder.path)
        var (twin, follower, well) = (Self.plugin("twin"), Self.plugin("follower"), Self.plugin("well"))
        twin.hooks = Array(twin.hooks.prefix(1))
        follower.hooks = [HookConfiguration(fullName: "follower/m", kind: .merge, before: "twin/n")]
        well.hooks = Array(well.hooks.prefix(1))
        try hooks.keep([twin, follower, well])
        let manifest = PluginConfiguration(name: "twin", command: ["/bin/true"], hooks: [])
        let loaded = LoadedConfiguration(configuration: Self.configuration, plugins: [manifest], files: [])
        let problems = try PersistedHooks.problems(of: loaded, stateFolder: folder.path)
        #expect(problems.count == 2, "\(problems)")
        #expect(try hooks.files().count == 3, "a check moves nothing")
        #expect(try hooks.load(for: loaded, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) == [well])
        #expect(try hooks.files().count == 1)
        let names = try FileManager.default.contentsOfDirectory(atPath: hooks.folder)
        #expect(names.count { $0.contains(".json.damaged-") } == 2, "\(names)")
    }

    @Test func whatDoesNotReadAsItselfIsRefused() throws {
        let folder = try TemporaryFolder()
        var plugin = Self.plugin("p")
        // A relative path would begin elsewhere.
        plugin.command = ["./x"]
        #expect(throws: (any Error).self) { try PersistedHooks(stateFolder: folder.path).keep([plugin]) }
        #expect(try PersistedHooks(stateFolder: folder.path).files().isEmpty)
    }
}
