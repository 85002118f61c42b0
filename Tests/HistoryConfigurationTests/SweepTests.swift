import Testing

@testable import HistoryBase
@testable import HistoryConfiguration

/// Takes a complete document and spoils one place after another: each gives one line, and the right one.
@Suite struct SweepTests {
    private static let complete = """
        {
          "version": 1,
          "stores": [{
            "name": "s", "path": "/s",
            "entities": { "person": { "preserve": ["name"] } },
            "authors": [{ "name": "A", "batch": false, "contexts": [
              { "name": "v", "kind": "replica", "path": "/r", "entities": ["person"] }] }],
            "unlistedAuthors": "ignore", "cleanUnlisted": true, "includingMirroring": false, "mirroringAuthors": ["M"],
            "clean": { "strategy": "byDuration", "seconds": 5, "maximumDuration": "7d", "keep": "1h" },
            "poll": 5, "autoStart": true
          }],
          "plugins": ["/p"],
          "logLevel": "info",
          "logFormat": "text",
          "stopTimeout": "20s"
        }
        """

    private static let duration =
        "a duration: seconds, or text such as \"500ms\", \"5s\", \"3m\", \"2h\" or \"7d\""

    /// What is allowed at each place. The keys are all places of the document.
    private static let expected = [
        "": "an object", "version": "1, the version of the format", "stores": "a list of stores",
        "stores[0]": "an object", "stores[0].name": "a name", "stores[0].path": "a path",
        "stores[0].entities": "an object of entities by name, or \"*\" for every table",
        "stores[0].entities.person": "an object",
        "stores[0].entities.person.preserve": "a list of column names",
        "stores[0].entities.person.preserve[0]": "a name",
        "stores[0].authors": "a list of authors", "stores[0].authors[0]": "an object",
        "stores[0].authors[0].name": "a name", "stores[0].authors[0].batch": "true or false",
        "stores[0].authors[0].contexts": "a list of contexts", "stores[0].authors[0].contexts[0]": "an object",
        "stores[0].authors[0].contexts[0].name": "a name",
        "stores[0].authors[0].contexts[0].kind": "\"replica\", \"feed\" or \"plugin\"",
        "stores[0].authors[0].contexts[0].path": "a path",
        "stores[0].authors[0].contexts[0].entities": "a list of entities",
        "stores[0].authors[0].contexts[0].entities[0]": "a name",
        "stores[0].unlistedAuthors": "\"deliver\" or \"ignore\"",
        "stores[0].includingMirroring": "true or false", "stores[0].cleanUnlisted": "true or false",
        "stores[0].autoStart": "true or false",
        "stores[0].mirroringAuthors": "a list of author names", "stores[0].mirroringAuthors[0]": "a name",
        "stores[0].clean": "an object",
        "stores[0].clean.strategy": "\"none\", \"byDuration\" or \"byNotification\"",
        "stores[0].clean.seconds": duration, "stores[0].clean.maximumDuration": duration,
        "stores[0].clean.keep": duration,
        "stores[0].poll": duration,
        "plugins": "a list of paths", "plugins[0]": "a path", "stopTimeout": duration,
        "logFormat": "\"text\" or \"json\"",
        "logLevel":
            "\"trace\", \"debug\", \"info\", \"notice\", \"warning\", \"error\", \"critical\" or \"off\"",
    ]

    @Test func tellsEveryPlaceOfAWrongType() throws {
        let root = try #require(JSONReader.read(Array(Self.complete.utf8)).root)
        #expect(problems(Self.complete) == [])
        #expect(Set(root.places()) == Set(Self.expected.keys))
        for (place, expected) in Self.expected {
            let (text, column) = root.rewritten(at: place) { _ in "null" }
            let key = place.isEmpty ? "" : "\(place): "
            #expect(problems(text) == ["f.json:1:\(column): \(key)expected \(expected), found null"])
        }
    }

    @Test func tellsEveryUnknownKey() throws {
        let root = try #require(JSONReader.read(Array(Self.complete.utf8)).root)
        let allowed = [
            "": "$schema, version, stores, plugins, logLevel, logFormat, stopTimeout",
            "stores[0]":
                "name, path, entities, authors, unlistedAuthors, cleanUnlisted, includingMirroring, mirroringAuthors, clean, poll, healthyLag, autoStart, mirror, source, folder, pattern, recursive, maximumStores, keepState, rest, metricsPerStore",
            "stores[0].entities.person": "preserve",
            "stores[0].authors[0]": "name, batch, contexts, startAt, batchWindow, ownProcesses",
            "stores[0].authors[0].contexts[0]":
                "name, kind, path, entities, window, mode, group, properties, where, values, maximumValueBytes, largeIntegers, plugin, "
                + "healthyLag",
            "stores[0].clean": "strategy, seconds, times, maximumDuration, keep",
        ]
        for (place, allowed) in allowed {
            let (text, column) = root.rewritten(at: place) { "{\"zzzz\":1," + $0.dropFirst() }
            let key = place.isEmpty ? "zzzz" : "\(place).zzzz"
            #expect(problems(text) == ["f.json:1:\(column + 1): \(key): unknown key. Allowed: \(allowed)"])
        }
    }

    private func problems(_ text: String) -> [String] {
        let problems = ProblemList()
        let source = DocumentNode.Source(file: "f.json", folder: "/", problems: problems)
        var decoder = ConfigurationDecoder()
        decoder.add(DocumentNode.root(of: Array(text.utf8), source: source))
        _ = decoder.finish()
        return problems.errors?.problems.map(\.description) ?? []
    }
}
