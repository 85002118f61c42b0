import CoreDataStores
import Foundation
import TestSupport
import Testing

/// Core Data stores as evidence: what is missing is said, and memory is bounded.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct CoreDataEvidenceTests {
    private static let model = StoreModel([
        .init("Note", attributes: [.init("text", .string, isPreserved: true)])
    ])

    private func store(_ bench: Workbench, _ count: Int64) throws -> GeneratedStore {
        try FileManager.default.removeItem(atPath: bench.store)
        let store = try GeneratedStore(bench.store, Self.model, random: SystemRandomNumberGenerator())
        for object in 0..<count {
            try store.commit(.init(author: "Widget"), [.init("Note", object + 1, .insert)])
        }
        return store
    }

    private func cut(_ numbers: ClosedRange<Int>, _ bench: Workbench) async throws {
        let range = "BETWEEN \(numbers.lowerBound) AND \(numbers.upperBound)"
        try await bench.sql(
            "BEGIN; DELETE FROM ATRANSACTION WHERE Z_PK \(range); DELETE FROM ACHANGE WHERE ZTRANSACTIONID \(range); COMMIT"
        )
    }

    @Test("A gap ends the history with an error, and is marked by --salvage")
    func gap() async throws {
        try await withWorkbench { bench in
            let store = try store(bench, 7)
            store.close()
            try await cut(4...6, bench)
            func history(_ options: String...) async throws -> Command.Outcome {
                try await Command(
                    Products.historyctl, ["history", bench.store, "--format", "json"] + options
                ).run()
            }
            let all = try await history()
            #expect(all.status == .exited(69) && all.lines.count == 3)
            #expect(all.errors.contains("the transactions 4 to 6 are missing"))
            #expect(try await history("--after", "\(store.uuid):3").status == .exited(69))
            let rest = try await history("--after", "\(store.uuid.lowercased()):6")
            #expect(rest.status == .exited(0) && rest.lines.count == 1)
            let salvaged = try await history("--salvage")
            #expect(salvaged.status == .exited(65) && salvaged.lines.count == 5)
            #expect(salvaged.lines[3] == #"{"missing":{"first":4,"last":6}}"#)
            #expect(salvaged.errors.contains("3 transactions are missing"))
            let description = try await Command(Products.historyctl, ["describe", bench.store]).succeed()
            #expect(description.contains("Missing       transactions 4 to 6"))
        }
    }

    @Test("A consumer of the daemon that stands before a gap has expired, and goes on behind it")
    func daemon() async throws {
        try await withWorkbench { bench in
            let store = try store(bench, 3)
            try bench.configure(
                StoreSetup(
                    entities: nil, authors: #"[{"name": "MainApp"}]"#, more: #""source": "coreData""#))
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            for object: Int64 in 4...8 {
                try store.commit(.init(author: "Widget"), [.init("Note", object, .insert)])
            }
            store.close()
            try await cut(5...7, bench)
            let run = try await bench.runDaemon("--once")
            #expect(run.log.contains { $0.contains("event=tokenExpired") }, "\(run.log)")
            let calls = try bench.calls().map(\.summary)
            #expect(
                calls.filter { $0.contains(" insert ") }.suffix(2) == [
                    "audit/all MainApp 4 Widget Note insert p4", "audit/all MainApp 8 Widget Note insert p8",
                ], "\(calls)")
        }
    }

    @Test("Transactions without changes have a line of CSV")
    func emptyTransactions() async throws {
        try await withWorkbench { bench in
            let store = try store(bench, 1)
            try store.commit(.init(author: "com.apple.coredata.schemamigrator"), [])
            store.close()
            let csv = try await Command(Products.historyctl, ["history", bench.store, "--format", "csv"])
                .succeed()
            let lines = csv.split(separator: "\n")
            #expect(lines.count == 3 && lines[2].contains("schemamigrator"))
            #expect(Set(lines[1...].map { $0.filter { $0 == "," }.count }).count <= 2)
        }
    }

    @Test("Values before and after are in every format")
    func values() async throws {
        try await withWorkbench { bench in
            let store = try store(bench, 2)
            try store.script("UPDATE ZNOTE SET ZTEXT = 'old'")
            try store.commit(.init(), [.init("Note", 1, .update(["text"]))])
            try store.script(
                """
                BEGIN; INSERT INTO ATRANSACTION (Z_PK, ZTIMESTAMP) VALUES (4, 5);
                INSERT INTO ACHANGE (Z_PK, ZCHANGETYPE, ZENTITY, ZENTITYPK, ZTRANSACTIONID, ZCOLUMNS)
                SELECT 99, 1, ZENTITY, 2, 4, ZCOLUMNS FROM ACHANGE WHERE ZTRANSACTIONID = 3;
                UPDATE Z_PRIMARYKEY SET Z_MAX = 4 WHERE Z_NAME = 'TRANSACTION';
                UPDATE ZNOTE SET ZTEXT = 'a,"b"' WHERE Z_PK = 2; COMMIT
                """)
            let copy = bench.store + "-copy"
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: bench.store + suffix, toPath: copy + suffix)
            }
            store.close()
            func history(_ format: String) async throws -> String {
                try await Command(
                    Products.historyctl,
                    ["history", copy, "--values", "--operation", "update", "--format", format]
                ).succeed()
            }
            let before = #"{"source":"wal","values":{"text":"old"}}"#
            let after = #"{"source":"wal","values":{"text":"a,\"b\""}}"#
            let json = try await history("json")
            #expect(json.contains(#""before":\#(before),"after":\#(after)"#), "\(json)")
            let csv = try await history("csv").split(separator: "\n")
            #expect(csv[0].hasSuffix(",tombstone,before,after"))
            let quoted = [before, after].map { "\"" + $0.replacing("\"", with: "\"\"") + "\"" }
            #expect(csv.last?.hasSuffix(",text,false,," + quoted.joined(separator: ",")) == true, "\(csv)")
            let table = try await history("table")
            #expect(table.contains("SOURCE") && table.contains(#"wal     text: "old" → "a,\"b\"""#), "\(table)")
            #expect(try await history("html").contains(#""before":\#(before)"#))
            let recorded = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY);")
            #expect(try await recorded.ctl("history", ["--values"]).status == .exited(64))
        }
    }

    @Test("One large transaction takes no more memory than a small one", .measuresMemory)
    func memory() async throws {
        try await withWorkbench { bench in
            let store = try store(bench, 1)
            let text = String(repeating: "x", count: 1 << 20)
            try store.commit((1...80).map { .init("Note", 100 + $0, .delete(["text": .text(text)])) })
            store.close()
            let script = """
                import resource, subprocess, sys
                with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE) as reader:
                    count = sum(len(block) for block in iter(lambda: reader.stdout.read(1 << 20), b""))
                assert reader.returncode == 0
                print(count, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
                """
            for options in [["--format", "json"], ["--format", "csv", "--reverse"], ["--limit", "1"]] {
                let output = try await Command(
                    Products.python, ["-c", script, Products.historyctl, "history", bench.store] + options
                ).succeed()
                let kibibytes = output.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }.last ?? .max
                #expect(kibibytes < 110 << 10, "\(options): \(kibibytes) KiB")
            }
        }
    }
}
