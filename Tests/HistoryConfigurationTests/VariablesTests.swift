import TestSupport
import Testing

@testable import HistoryConfiguration

@Suite struct VariablesTests {
    private static let variables = Variables { ["ROOT": "/srv", "EMPTY": "", "_x1": "{ROOT}$"][$0] }

    @Test(arguments: [
        ("", ""), ("no variable", "no variable"), ("${ROOT}/a", "/srv/a"), ("${ROOT}${ROOT}", "/srv/srv"),
        ("a${EMPTY}b", "ab"), ("${EMPTY:-x}", "x"), ("${MISSING:-}", ""), ("${MISSING:-a b:-c}", "a b:-c"),
        ("${ROOT:-x}", "/srv"), ("$$", "$"), ("$${ROOT}", "${ROOT}"), ("$$$$", "$$"), ("$", "$"),
        ("a$b", "a$b"),
        ("'$.a' = $1", "'$.a' = $1"), ("${_x1}", "{ROOT}$"), ("{name}", "{name}"),
        ("${ROOT}/{name}", "/srv/{name}"),
    ])
    func expands(_ text: String, _ expected: String) throws {
        #expect(try Self.variables.expand(text) == expected)
    }

    @Test(arguments: [
        ("${MISSING}", Variables.Failure.unset("MISSING")), ("${", .malformed), ("${}", .malformed),
        ("${1a}", .malformed), ("${a b}", .malformed), ("${ROOT-x}", .malformed), ("${ROOT:x}", .malformed),
        ("${ä}", .malformed), ("x${ROOT", .malformed),
    ])
    func refuses(_ text: String, _ failure: Variables.Failure) {
        #expect(throws: failure) { try Self.variables.expand(text) }
    }

    /// Any text can be written: with each dollar doubled, it stands for itself.
    @Test func everyTextCanBeWritten() throws {
        var random = Seed(UInt64.random(in: 0 ... .max))
        for _ in 0..<1000 {
            let text = String((0..<8).compactMap { _ in "$${}:-aR\u{301}".randomElement(using: &random) })
            let escaped = text.unicodeScalars.map { $0 == "$" ? "$$" : String($0) }.joined()
            #expect(
                try Self.variables.expand(escaped).unicodeScalars.elementsEqual(text.unicodeScalars),
                "\(random)")
        }
    }

    @Test func mistakesAreReportedWithTheirPlaces() throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "historyd.json",
            """
            {"version": 1, "logLevel": "${HISTORYD_TEST_LEVEL:-debug}", "stores": [{"name": "s",
             "path": "${HISTORYD_TEST_MISSING}/s.sqlite", "authors": [{"name": "${"}]}]}
            """)
        do throws(ConfigurationErrors) {
            _ = try LoadedConfiguration.load(file: folder.file("historyd.json"))
            Issue.record("It was taken.")
        } catch {
            #expect(
                error.problems.map { "\($0)".replacing(folder.path + "/", with: "") } == [
                    "historyd.json:2:10: stores[0].path: the variable \"HISTORYD_TEST_MISSING\" is not set; set it in the service's environment, or write ${HISTORYD_TEST_MISSING:-default}",
                    "historyd.json:2:68: stores[0].authors[0].name: expected ${NAME} or ${NAME:-default}, found \"${\"; $$ is a dollar",
                ])
        }
        try folder.write(
            "historyd.json",
            #"{"version": 1, "logLevel": "${HISTORYD_TEST_LEVEL:-debug}", "stores": [{"name": "s", "path": "/a$$b"}]}"#
        )
        let configuration = try LoadedConfiguration.load(file: folder.file("historyd.json")).configuration
        #expect(configuration.logLevel == .debug)
        #expect(configuration.stores[0].path == "/a$b")
    }
}
