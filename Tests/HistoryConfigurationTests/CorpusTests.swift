import FoundationEssentials
import PersistentHistory
import Testing
import TestSupport

@testable import HistoryBase
@testable import HistoryConfiguration

private let file = "/etc/historyd/historyd.json"

/// The whole output for documents that need no other file.
private func problems(configuration text: String) -> String {
    let problems = ProblemList()
    let source = DocumentNode.Source(file: file, folder: "/etc/historyd", problems: problems)
    var decoder = ConfigurationDecoder()
    decoder.add(DocumentNode.root(of: Array(text.utf8), source: source))
    _ = decoder.finish()
    return problems.errors?.description ?? ""
}

private func problems(nats text: String) -> String {
    let problems = ProblemList()
    let source = DocumentNode.Source(file: file, folder: "/etc/historyd", problems: problems)
    _ = DocumentNode.root(of: Array(text.utf8), source: source).flatMap(NATSDecoder.decode)
    return problems.errors?.description ?? ""
}

private let configuration = DaemonConfiguration(stores: [
    StoreConfiguration(
        name: "contacts", path: "/c",
        authors: [
            AuthorConfiguration(name: "MainApp"), AuthorConfiguration(name: "Widget"),
            AuthorConfiguration(name: "Importer", isBatch: true),
        ]),
    StoreConfiguration(
        name: "notes", path: "/n",
        authors: [AuthorConfiguration(name: "Notes"), AuthorConfiguration(name: "Importer")]),
])

private func problems(manifest text: String, besides others: [PluginConfiguration] = []) -> String {
    do throws(ConfigurationErrors) {
        _ = try PluginConfiguration.read(
            manifest: Array(text.utf8), file: file, for: configuration, besides: others)
        return ""
    } catch {
        return error.description
    }
}

extension CorpusCase {
    /// The whole output expected.
    fileprivate var output: String {
        problems.map { "\(file):\($0.replacing("FILE", with: file))" }.joined(separator: "\n")
    }
}

@Suite struct CorpusTests {
    @Test(arguments: configurationCorpus)
    func tellsAllThatIsWrongWithAConfiguration(example: CorpusCase) {
        #expect(problems(configuration: example.text) == example.output)
    }

    @Test(arguments: manifestCorpus)
    func tellsAllThatIsWrongWithAManifest(example: CorpusCase) {
        #expect(problems(manifest: example.text) == example.output)
    }

    @Test(arguments: natsCorpus)
    func tellsAllThatIsWrongWithAConfigurationOfStreams(example: CorpusCase) {
        #expect(problems(nats: example.text) == example.output)
    }

    @Test func checksAManifestAgainstThePluginsInForce() {
        let others = [
            PluginConfiguration(
                name: "p", command: ["/p"],
                hooks: [
                    HookConfiguration(fullName: "p/m", kind: .merge),
                    HookConfiguration(fullName: "p/o", kind: .observer),
                ])
        ]
        func manifest(_ name: String, before: String) -> String {
            """
            {"version": 1, "plugins": [{"name": "\(name)", "command": ["/q"], "hooks": [
            {"name": "m", "kind": "merge", "before": "\(before)"}]}]}
            """
        }
        #expect(problems(manifest: manifest("q", before: "p/m"), besides: others) == "")
        #expect(
            problems(manifest: manifest("q", before: "p/o"), besides: others)
                == "\(file):2:42: plugins[0].hooks[0].before: expected a merge hook; \"p/o\" is an observer")
        #expect(
            problems(manifest: manifest("p", before: "p/m"), besides: others)
                == """
                \(file):1:37: plugins[0].name: plugin "p" already exists
                \(file):2:42: plugins[0].hooks[0].before: a hook cannot be before itself
                """)
    }
}

// MARK: Documents by chance

/// Documents of the corpus with one value put where another was, which keeps them JSON.
private func scrambled(_ corpus: [CorpusCase], count: Int, random: inout Seed) -> [String] {
    let roots = corpus.compactMap { JSONReader.read(Array($0.text.utf8)).root }
    let values = roots.flatMap { root in
        root.places().map { place in
            var value = ""
            _ = root.rewritten(at: place) {
                value = $0; return $0
            }
            return value
        }
    }
    return (0..<count).compactMap { _ in
        guard let root = roots.randomElement(using: &random),
            let place = root.places().randomElement(using: &random),
            let value = values.randomElement(using: &random)
        else { return nil }
        return root.rewritten(at: place) { _ in value }.text
    }
}

@Suite struct ScrambledDocuments {
    /// Whatever is in a document, each problem is a line, and inside of it.
    @Test(arguments: [true, false])
    func endInLinesOfProblems(areManifests: Bool) {
        var random = Seed(UInt64.random(in: 0 ... .max))
        for text in scrambled(areManifests ? manifestCorpus : configurationCorpus, count: 2000, random: &random)
        {
            let output = areManifests ? problems(manifest: text) : problems(configuration: text)
            for line in output.split(separator: "\n", omittingEmptySubsequences: true) {
                let place = line.dropFirst(file.count).split(separator: ":", maxSplits: 2).compactMap {
                    Int($0)
                }
                #expect(line.hasPrefix(file + ":") && place.count == 2, "\(random): \(text)")
                #expect(
                    place.first == 1 && 1...text.unicodeScalars.count ~= place.last ?? 0, "\(random): \(text)")
            }
        }
    }
}

// MARK: The schemas

/// Says of each document whether a schema takes it for good. The validator is a known one, so that
/// the schemas are tested as editors read them.
private let validator = """
    import json, sys
    from jsonschema import Draft202012Validator
    schema, documents = json.load(sys.stdin)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    print(json.dumps([validator.is_valid(json.loads(document)) for document in documents]))
    """

private func python(_ script: String, input: String = "") async throws -> String? {
    let outcome = try await Command("python3", ["-c", script], input: input).run()
    return outcome.status == .exited(0) ? outcome.output : nil
}

private func hasValidator() async -> Bool {
    do { return try await python("from jsonschema import Draft202012Validator") != nil } catch { return false }
}

let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

func sample(_ name: String) throws -> String {
    try String(contentsOf: sources.appending(path: "config").appending(path: name), encoding: .utf8)
}

@Suite(.enabled("Python's jsonschema is not installed.", hasValidator)) struct SchemaTests {
    @Test(arguments: [
        ("historyd.schema.json", configurationCorpus), ("plugins.schema.json", manifestCorpus),
        ("nats.schema.json", natsCorpus),
    ])
    func agreesWithTheDecoder(schema: String, corpus: [CorpusCase]) async throws {
        let verdicts = try await verdicts(schema, corpus.map(\.text))
        try #require(verdicts.count == corpus.count)
        for (example, isGood) in zip(corpus, verdicts) {
            #expect(
                isGood == (example.problems.isEmpty || !example.schemaKnows), "\(example.name): \(example.text)"
            )
        }
    }

    /// A schema knows less than the decoder, but nothing else: what the decoder takes, it takes.
    @Test(arguments: [true, false])
    func takesAllThatTheDecoderTakes(areManifests: Bool) async throws {
        var random = Seed(UInt64.random(in: 0 ... .max))
        let comment = Comment(rawValue: random.description)
        let texts = scrambled(areManifests ? manifestCorpus : configurationCorpus, count: 3000, random: &random)
            .filter { (areManifests ? problems(manifest: $0) : problems(configuration: $0)).isEmpty }
        try #require(texts.count > 20, comment)
        let verdicts = try await verdicts(areManifests ? "plugins.schema.json" : "historyd.schema.json", texts)
        let refused = zip(texts, verdicts).filter { !$1 }.map(\.0)
        #expect(refused == [], comment)
    }

    @Test(arguments: [
        ("historyd.schema.json", "historyd.json"), ("plugins.schema.json", "plugins.d/audit.json"),
        ("nats.schema.json", "nats.json"),
    ])
    func takesTheSamples(schema: String, name: String) async throws {
        #expect(try await verdicts(schema, [sample(name)]) == [true])
    }

    private func verdicts(_ schema: String, _ documents: [String]) async throws -> [Bool] {
        let list = String(decoding: try JSONEncoder().encode(documents), as: UTF8.self)
        let output = try #require(await python(validator, input: "[\(try sample(schema)), \(list)]"))
        return try JSONDecoder().decode([Bool].self, from: Array(output.utf8).withUnsafeBytes { Data($0) })
    }
}
