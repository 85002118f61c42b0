import FoundationEssentials
import Testing

@testable import historyd_bench

struct RunRecordTests {
    @Test func whatWasKeptIsRead() throws {
        let temporary = try TemporaryFolder()
        let folder = RunFolder(path: temporary.file("runs"))
        let figure = Figure(
            "group", "name", rounds: [1.5, 0, 1e9], .perSecond,
            against: .init(name: "other", rounds: [2, 3, 4]),
            aim: .atLeast(500_000))
        let record = RunRecord(
            machine: [.init(name: "kernel", value: "Linux")], figures: [figure], omissions: ["no tool"])
        let path = try folder.save(record, as: "first")
        let read = try RunRecord.load(path)
        #expect(read.figures.map(\.rounds) == [[1.5, 0, 1e9]])
        #expect(read.figures.first?.baseline?.rounds == [2, 3, 4])
        #expect(read.figures.first?.aim == .atLeast(500_000))
        #expect(read.omissions == ["no tool"])
        #expect(Comparison(read.figures, [figure]).lines.map(\.verdict) == [.same])
    }

    @Test func theNewestRunComesFirst() throws {
        let temporary = try TemporaryFolder()
        let folder = RunFolder(path: temporary.file("runs"))
        #expect(try folder.names() == [])
        let record = RunRecord(machine: [], figures: [], omissions: [])
        for (age, name) in ["b", "a", "c"].enumerated() {
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: 1_000_000 + Double(age))],
                ofItemAtPath: folder.save(record, as: name))
        }
        #expect(try folder.names() == ["c", "a", "b"])
        #expect(folder.file("c") == temporary.file("runs/c.json"))
        #expect(folder.file("./c.json") == "./c.json")
    }

    @Test func whatIsNoRunIsRefused() {
        #expect(throws: BenchError.self) { try RunRecord.load("/nowhere") }
    }
}
