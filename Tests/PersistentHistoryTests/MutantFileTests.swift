import Foundation
import Testing

/// Each file of `Tests/Tools/Mutants` fits the code. Otherwise it would show only when `make mutants` runs again that a test of the
/// tests is gone.
@Suite struct MutantFileTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test func eachMutantsOldTextIsThereOnce() throws {
        let folder = Self.root.appending(path: "Tests/Tools/Mutants")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "mutant" }
        #expect(files.count > 50)
        for file in files {
            let text = try String(contentsOf: file, encoding: .utf8)
            let source = try #require(text.firstMatch(of: /\nfile: (.*)\n/)?.1, "\(file.lastPathComponent)")
            let code = try String(contentsOf: Self.root.appending(path: String(source)), encoding: .utf8)
            let changes = text.matches(of: /(?ms)^<<<<\n(.*?)\n====\n(.*?)\n>>>>$/)
            #expect(!changes.isEmpty, "\(file.lastPathComponent)")
            for change in changes {
                let count = code.ranges(of: String(change.1)).count
                #expect(count == 1, "\(file.lastPathComponent): the old text is there \(count) times")
            }
        }
    }

    @Test func theTestsThatAMutantNamesAreThere() throws {
        let tests = Self.root.appending(path: "Tests")
        let files = FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil)
        var names: Set<Substring> = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let text = try String(contentsOf: file, encoding: .utf8)
            names.formUnion(text.matches(of: /(?:struct|class|func) (\w+)/).map(\.1))
        }
        let folder = tests.appending(path: "Tools/Mutants")
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        where file.pathExtension == "mutant" {
            let text = try String(contentsOf: file, encoding: .utf8)
            let wanted = text.firstMatch(of: /\ntests: (.*)\n/)?.1 ?? ""
            let known = wanted.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
            #expect(known.contains { names.contains($0) }, "\(file.lastPathComponent): \(wanted)")
        }
    }
}
