import Foundation
import Testing
import TestSupport

@testable import HistoryConfiguration

/// What a schema says to be the default is what the program does without the key.
@Suite struct DefaultTests {
    /// An object of each kind, in a document, with room for one more member.
    private static var places: [(schema: String, definition: String?, document: @Sendable (String) -> String)] {
        [
            ("historyd", nil, { #"{"version": 1, "stores": [{"name": "s", "path": "/s"}]\#($0)}"# }),
            ("historyd", "store", { #"{"version": 1, "stores": [{"name": "s", "path": "/s"\#($0)}]}"# }),
            (
                "historyd", "author",
                {
                    #"{"version": 1, "stores": [{"name": "s", "path": "/s", "authors": [{"name": "A"\#($0)}]}]}"#
                }
            ),
            (
                "historyd", "context",
                {
                    #"{"version": 1, "stores": [{"name": "s", "path": "/s", "authors": [{"name": "A", "contexts": [{"name": "f", "kind": "feed"\#($0)}]}]}]}"#
                }
            ),
            (
                "historyd", "clean",
                {
                    let more = $0.isEmpty ? "" : String($0.dropFirst(2))
                    return #"{"version": 1, "stores": [{"name": "s", "path": "/s", "clean": {\#(more)}}]}"#
                }
            ),
        ]
    }

    private static func read(_ text: String) throws -> DaemonConfiguration {
        let problems = ProblemList()
        let source = DocumentNode.Source(file: "/f", folder: "/", problems: problems)
        var decoder = ConfigurationDecoder()
        decoder.add(DocumentNode.root(of: Array(text.utf8), source: source))
        let configuration = decoder.finish()
        #expect(problems.errors?.description ?? "" == "", "\(text)")
        return configuration
    }

    @Test func everyDefaultIsTheProgramsOwn() throws {
        var count = 0
        for place in Self.places {
            let schema = try #require(
                try JSONSerialization.jsonObject(
                    with: Data(contentsOf: sources.appending(path: "config/\(place.schema).schema.json")))
                    as? [String: Any])
            let object =
                try place.definition.map {
                    try #require((schema["$defs"] as? [String: Any])?[$0] as? [String: Any])
                }
                ?? schema
            for (key, value) in try #require(object["properties"] as? [String: Any]) {
                guard let given = (value as? [String: Any])?["default"] else { continue }
                // Only with another key.
                if ["maximumValueBytes", "cleanUnlisted", "recursive", "maximumStores", "metricsPerStore"]
                    .contains(key)
                {
                    continue
                }
                let json = String(
                    decoding: try JSONSerialization.data(withJSONObject: given, options: .fragmentsAllowed),
                    as: UTF8.self)
                count += 1
                #expect(
                    try Self.read(place.document(", \"\(key)\": \(json)")) == Self.read(place.document("")),
                    "\(place.definition ?? "top") \(key): \(json)")
            }
        }
        #expect(count > 10)
    }
}
