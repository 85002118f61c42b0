import Foundation
import PersistentHistory
import Testing

/// What GettingStartedSwift.md shows of the library compiles, runs, and is what stands here.
@Suite(.timeLimit(.minutes(60))) struct TrackerReadmeTests {
    @Test func thePagesExampleIsThis() throws {
        let source = try String(contentsOfFile: #filePath, encoding: .utf8)
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(
            path: "../../Sources/PersistentHistory/PersistentHistory.docc/GettingStartedSwift.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let block = try #require(
            text.firstMatch(of: /(?s)```swift\nimport PersistentHistory\n\n(let tracker.*?)```/)?.1)
        #expect(words(source).contains(words(String(block))))
    }

    /// However the lines are broken and indented.
    private func words(_ text: String) -> String {
        text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    @Test func itRuns() async throws {
        let files = try TrackedStore()
        let (path, viewPath, stateFolder) = (files.path, files.replica.path, files.stateFolder)
        // GettingStartedSwift.md begins.
        let tracker = PersistentHistoryTracker(
            store: path,
            contexts: [ReplicaContext(name: "view", path: viewPath, entities: ["person"])],
            currentAuthor: "MainApp",
            allAuthors: ["MainApp", "WidgetExtension", "BatchProcessor"],
            batchAuthors: ["BatchProcessor"],
            stateFolder: stateFolder,
            cleanStrategy: .byDuration(seconds: 60 * 60 * 24 * 7))

        let observer = await tracker.registerObserver(entityName: "person", operation: .insert) { contexts in
            for context in contexts { print("new: \(context.objectIDURL)") }
        }
        let merge = await tracker.registerMergeHook { input in
            input.transactions.contains { $0.author == "BANNED" } ? .finish : .goOn
        }
        await tracker.registerMergeHook(before: merge) { input in
            .rejecting(input.transactions.filter { $0.context == "draft" }.map(\.token))
        }
        await tracker.removeObserver(id: observer)

        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await tracker.run() }  // until it is cancelled
            tracker.stop()  // off and on, at any time
            tracker.start()
            try await tracker.cleanerBuilder().clean()
            group.cancelAll()
        }
        // GettingStartedSwift.md ends.
        #expect(await !tracker.removeObserver(id: observer))
    }
}
