import PersistentHistory
import TestSupport
import Testing

@testable import HistoryConfiguration

@Suite struct TemplateTests {
    private static func configuration(_ name: String, more: String = "") throws -> DaemonConfiguration {
        let text = """
            {"version": 1, "stores": [
              {"name": "main", "path": "/srv/tenants/main.sqlite"},
              {"name": "\(name)", "folder": "/srv/tenants/", "pattern": "*.sqlite", "recursive": true,
               "authors": [{"name": "A", "contexts": [
                 {"name": "v", "kind": "replica", "path": "/srv/views/{path}", "group": "g-{name}"}]}]\(more)}]}
            """
        let problems = ProblemList()
        let source = DocumentNode.Source(file: "/f", folder: "/", problems: problems)
        var decoder = ConfigurationDecoder()
        decoder.add(DocumentNode.root(of: Array(text.utf8), source: source))
        let configuration = decoder.finish()
        #expect(problems.errors?.description ?? "" == "")
        return configuration
    }

    @Test func aStoreHasTheNameAndThePathsOfItsFile() throws {
        let template = try #require(
            try Self.configuration("tenant-{name}", more: #", "keepState": "30d""#).templates.first)
        #expect(template.keepState == .seconds(30 * 86_400))
        let store = try template.store(of: TemplateFile("eu/acme.v2.sqlite"))
        #expect(store.name == "tenant-acme.v2")
        #expect(store.path == "/srv/tenants/eu/acme.v2.sqlite")
        #expect(
            store.authors[0].contexts[0].kind
                == .replica(path: "/srv/views/eu/acme.v2.sqlite", access: ReplicaAccess(group: "g-acme.v2")))
        #expect(template.includes("/srv/tenants/eu/acme.sqlite"))
        #expect(!template.includes("/srv/tenants/eu/acme.db"))
        #expect(!template.includes("/srv/tenants2/acme.sqlite"))
        #expect(!template.includes("/srv/tenants/../acme.sqlite"))
    }

    /// Whoever may create files chooses their names: what is taken of them is harmless wherever it goes.
    @Test func noNameBreaksAnything() {
        for name in [
            "", ".", "..", "../x", "a/../b", "a//b", "/a", "a/", ".hidden", "-rf", "a b", "a\nb", "a\u{1b}[2J",
            "a\"b", "a'b",
            "{name}", "{path}", "a%00", "a?b", "a#b", "a*b", "a\\b", "ä", "cafe\u{301}", "a\u{202e}b",
            "a\u{0}b", "a:b", "a;b",
            "$(x)", "`x`", "a&b", "a<b", String(repeating: "x", count: 121),
            Array(repeating: "d", count: 10).joined(separator: "/"),
        ] {
            #expect(throws: TemplateFile.Refusal.self, "\(name)") { try TemplateFile(name) }
        }
        for name in ["a", "A-1_b.c", "user@example.org.sqlite", "x/y/z.db", "a+b=c", "0"] {
            #expect((try? TemplateFile(name))?.path == name)
        }
        let long = String(repeating: "x", count: 120)
        #expect(throws: TemplateFile.Refusal.tooLong) {
            try Self.configuration("{path}").templates[0].store(of: TemplateFile("\(long)/\(long)/\(long)"))
        }
    }

    @Test func theFirstHasTheName() throws {
        var catalog = StoreCatalog(try Self.configuration("{name}"))
        func file(_ path: String) -> StoreCatalog.File { .init(template: 0, path: path) }
        #expect(catalog.appear(file("a.sqlite")).begun.map(\.name) == ["a"])
        let refused = catalog.appear(file("eu/a.sqlite"))
        #expect(refused.begun.isEmpty)
        #expect(refused.refused.map(\.path) == ["/srv/tenants/eu/a.sqlite"])
        #expect(refused.refused.map(\.why) == [.nameTaken(name: "a", by: "/srv/tenants/a.sqlite")])
        // It is told once.
        #expect(catalog.appear(file("eu/a.sqlite")).refused.isEmpty)
        let change = catalog.disappear(file("a.sqlite"))
        #expect(change.ended == ["a"])
        #expect(change.begun.map(\.path) == ["/srv/tenants/eu/a.sqlite"])
        // What has an entry of its own is served as that says.
        #expect(catalog.appear(file("main.sqlite")).refused.map(\.why) == [.fileTaken(by: "main")])
        #expect(
            catalog.appear(file("eu/main.sqlite")).refused.map(\.why) == [
                .nameTaken(name: "main", by: "/srv/tenants/main.sqlite")
            ])
    }

    /// Whatever comes and goes: no name and no path is served twice, all begun and ended add up, and a file waits only
    /// while its name is taken.
    @Test func namesStayUnique() throws {
        let configuration = try Self.configuration("{name}")
        var random = Seed(UInt64.random(in: 0 ... .max))
        for _ in 0..<200 {
            var catalog = StoreCatalog(configuration)
            var present: Set<String> = []
            var running: [String: String] = [:]
            for _ in 0..<60 {
                let folder = ["", "x/", "y/"].randomElement(using: &random) ?? ""
                let name = ["a", "b", "main", "bad name"].randomElement(using: &random) ?? ""
                let path = "\(folder)\(name).sqlite"
                let comes = Bool.random(using: &random)
                if comes { present.insert(path) } else { present.remove(path) }
                let file = StoreCatalog.File(template: 0, path: path)
                let change = comes ? catalog.appear(file) : catalog.disappear(file)
                for name in change.ended { #expect(running.removeValue(forKey: name) != nil, "\(random)") }
                for store in change.begun {
                    #expect(running.updateValue(store.path, forKey: store.name) == nil, "\(random)")
                }
                #expect(Set(running.values).count == running.count, "\(random)")
                #expect(Set(catalog.stores.map(\.path)) == Set(running.values), "\(random)")
                let wanted = Set(
                    present.compactMap { try? TemplateFile($0) }.map(\.name).filter { $0 != "main" })
                #expect(Set(running.keys) == wanted, "\(random)")
                #expect(
                    running.values.allSatisfy { present.contains(String($0.dropFirst("/srv/tenants/".count))) })
            }
        }
    }

    @Test func hooksNameStoresOfAFolder() throws {
        let configuration = try Self.configuration("tenant-{name}")
        func problems(_ store: String) throws -> [String] {
            do throws(ConfigurationErrors) {
                _ = try PluginConfiguration.read(
                    manifest: Array(
                        #"{"version": 1, "plugins": [{"name": "p", "command": ["/bin/true"], "hooks": [{"name": "h", "kind": "observer", "consumer": "A", "store": "\#(store)"}]}]}"#
                            .utf8), file: "/m", for: configuration, besides: [])
                return []
            } catch {
                return error.problems.map(\.message)
            }
        }
        #expect(try problems("tenant-*") == [])
        #expect(try problems("tenant-acme") == [])
        #expect(try problems("*") == [])
        #expect(try problems("ma?n").first?.contains("unknown consumer") == true)
        #expect(
            try problems("customer-*") == [
                "unknown store \"customer-*\". Known: \"main\", \"tenant-{name}\""
            ])
    }
}
