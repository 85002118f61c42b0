import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// A state that is closed until something is saved.
@Suite struct StateConnectionTests {
    private static let store = StoreID.sample()

    @Test("A state that was closed is opened again by the next access")
    func reopened() throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        try state.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main")
        for position in 3...5 as ClosedRange<Int64> {
            try state.close()
            // Nothing has it open any more (https://www.sqlite.org/wal.html).
            #expect(!FileManager.default.fileExists(atPath: state.path + "-wal"))
            #expect(try state.cursors.checkpoint(of: "Main")?.position == position)
            try state.cursors.save(Checkpoint(position: position + 1, movedAt: .now), of: "Main")
        }
        try state.close()
        try state.close()
    }

    @Test(
        "Where a state was removed while it was closed, no other is made, of which consumers would start over")
    func removed() throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        try state.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main")
        try state.close()
        try FileManager.default.moveItem(atPath: state.path, toPath: state.path + ".away")
        let error = #expect(throws: HistoryError.self) { try state.cursors.all() }
        #expect(error?.code == .stateUnusable)
        #expect(!FileManager.default.fileExists(atPath: state.path))
        try FileManager.default.moveItem(atPath: state.path + ".away", toPath: state.path)
        #expect(try state.cursors.checkpoint(of: "Main")?.position == 3)
        try state.close()
    }
}
