import Foundation
import HistoryConfiguration
import PersistentHistory
import TestSupport
import Testing

/// The script that takes a store and a hook to the service: what it writes is a configuration that is accepted.
@Suite struct SetupPlanTests {
    private func plan(
        _ folder: TemporaryFolder, name: String = "notes", isConfigured: Bool = false, instance: String? = nil
    ) throws -> SetupPlan {
        try folder.write("store", "")
        return SetupPlan(
            store: .init(name: name, path: folder.file("store"), consumer: "tell", isConfigured: isConfigured),
            hook: .init(name: "tell", file: "/home/a/it's/tell.py", entity: "no\"te", mode: .coprocess),
            instance: instance, hasConfiguration: false,
            deployment: try DeploymentPlan(
                store: folder.file("store"), user: "nobody", runsAsUser: false,
                unit: SetupPlan.unit(ofInstance: instance)))
    }

    /// The heredocs of the script, by the file that they make.
    private func files(_ script: String) -> [String: String] {
        var files: [String: String] = [:]
        for match in script.matches(of: /install -D -m 644 \/dev\/stdin (\S+) <<'JSON'\n((?:.*\n)*?)JSON\n/) {
            files[String(match.1)] = String(match.2)
        }
        return files
    }

    @Test(arguments: [nil, "blog"] as [String?], ["notes", "it's \"$(x)\" ü"])
    func whatItWritesIsAccepted(instance: String?, name: String) throws {
        let folder = try TemporaryFolder()
        let plan = try plan(folder, name: name, instance: instance)
        let etc = "/etc/historyd" + (instance.map { "/\($0)" } ?? "")
        let files = files(plan.script)
        #expect(
            Set(files.keys) == ["\(etc)/historyd.json", "\(etc)/conf.d/tell.json", "\(etc)/hooks.d/tell.json"])
        // As they lie there, in another place.
        for (path, text) in files {
            let file = folder.file(String(path.dropFirst(etc.count + 1)))
            try FileManager.default.createDirectory(
                at: URL(filePath: file).deletingLastPathComponent(), withIntermediateDirectories: true)
            try text.replacing(etc, with: folder.path).write(toFile: file, atomically: true, encoding: .utf8)
        }
        let loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        #expect(loaded.configuration.stores.map(\.name) == [name])
        #expect(loaded.configuration.stores.map(\.path) == [folder.file("store")])
        #expect(loaded.plugins.map(\.command) == [["/usr/local/libexec/historyd/tell"]])
        #expect(loaded.plugins.first?.hooks.map(\.entity) == ["no\"te"])
        #expect(loaded.plugins.first?.mode == .coprocess)
    }

    @Test func aStoreThatIsConfiguredIsNotAddedAgain() throws {
        let folder = try TemporaryFolder()
        let files = files(try plan(folder, isConfigured: true).script)
        #expect(files["/etc/historyd/conf.d/tell.json"]?.contains("stores") == false)
        #expect(files["/etc/historyd/hooks.d/tell.json"]?.contains("\"consumer\": \"tell\"") == true)
    }

    @Test func itIsAScript() async throws {
        let folder = try TemporaryFolder()
        try folder.write("script", try plan(folder, instance: "blog").script)
        try await Command("sh", ["-n", folder.file("script")]).succeed()
        let script = try plan(folder, instance: "blog").script
        #expect(script.contains("systemctl restart historyd@blog.service\n"))
        #expect(script.contains("/etc/systemd/system/historyd@blog.service.d/"))
        #expect(
            script.contains(#"install -D -m 755 '/home/a/it'\''s/tell.py' /usr/local/libexec/historyd/tell"#))
    }

    /// Rights on what is not the store's own are given to nobody.
    @Test func aStoreInASharedFolderIsRefused() {
        for path in ["/srv/store.sqlite", "/home/a/store.sqlite"] {
            #expect(throws: HistoryError.self) {
                try DeploymentPlan(
                    store: path, user: "nobody", runsAsUser: false, unit: SetupPlan.unit(ofInstance: nil))
            }
        }
    }
}
