import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

@Suite struct ServedFilesTests {
    @Test("Of two paths that lead to one file, the second waits for the first")
    func oneFile() async throws {
        let folder = try TemporaryFolder()
        try folder.write("a.sqlite", "")
        #expect(link(folder.file("a.sqlite"), folder.file("b.sqlite")) == 0)
        let files = ServedFiles()
        let (a, b) = (folder.file("a.sqlite"), folder.file("b.sqlite"))
        try await files.serving(a) {
            let error = await #expect(throws: HistoryError.self) {
                try await files.serving(b) { Issue.record("It is served twice.") }
            }
            #expect(error?.code == .storeServedElsewhere)
            #expect(error?.message.contains(a) == true && error?.message.contains(b) == true)
            // The same store: its session has not ended yet.
            let isServed = try await files.serving(a) { true }
            #expect(isServed)
        }
        let isServed = try await files.serving(b) { true }
        #expect(isServed)
    }
}
