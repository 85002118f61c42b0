import Foundation
import Testing

/// The page Internals names files, types and functions: they are where it says.
@Suite struct InternalsPageTests {
    private struct Place {
        let file: String
        /// `Type.function`, or a type alone.
        let names: [Substring]
    }

    private static let sources = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources")
    private static let page = try? text(of: "PersistentHistory.docc/Internals.md")

    private static func text(of file: String) throws -> String {
        let paths = ["PersistentHistory/\(file)", file].map { sources.appending(path: $0).path }
        let found = paths.first { FileManager.default.fileExists(atPath: $0) }
        return try String(contentsOfFile: #require(found, "\(file) is not there"), encoding: .utf8)
    }

    /// The rows of "file, where to look".
    private static func walk() throws -> [Place] {
        let rows = try #require(page).split(separator: "\n").filter { $0.hasPrefix("| `") }
        return rows.compactMap { row in
            let cells = row.split(separator: "|")
            guard cells.count == 2, let file = cells[0].firstMatch(of: /`([\w\/+]+\.swift)`/)?.1 else {
                return nil
            }
            return Place(file: String(file), names: cells[1].matches(of: /`([\w.]+)`/).map(\.1))
        }
    }

    @Test func everyFileThatIsNamedIsThere() throws {
        let files = try #require(Self.page).matches(of: /`(\w+\/[\w\/+]+\.swift)`/).map { String($0.1) }
        #expect(files.count > 30)
        for file in Set(files) { _ = try Self.text(of: file) }
    }

    @Test func aCommitsWayIsWhereThePageSays() throws {
        let walk = try Self.walk()
        #expect(walk.count > 20)
        for place in walk {
            let text = try Self.text(of: place.file)
            #expect(!place.names.isEmpty, "\(place.file)")
            for name in place.names {
                let parts = name.split(separator: ".")
                let type = try Regex("(class|struct|enum|actor|extension) \(parts[0])\\b")
                #expect(text.contains(type), "\(place.file) has no \(parts[0])")
                guard parts.count == 2 else { continue }
                #expect(text.contains(try Regex("func \(parts[1])\\b")), "\(place.file) has no \(name)")
            }
        }
    }

    /// The rows of "next, the runner, the event that follows".
    @Test func theMachineSaysWhatThePageSays() throws {
        let page = try #require(Self.page)
        let table = try #require(page.firstMatch(of: /\| next \| the runner \|.*\n((\|.*\n)+)/)?.1)
        let machine = try Self.text(of: "Delivery/Consumers/ConsumerMachine.swift")
        let names = table.matches(of: /`(\w+)`/).map(\.1)
        #expect(names.count > 15)
        for name in names {
            #expect(machine.contains(try Regex("case \(name)\\b")), "ConsumerMachine has no \(name)")
        }
    }
}
