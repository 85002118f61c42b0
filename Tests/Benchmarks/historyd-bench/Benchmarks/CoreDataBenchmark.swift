import CoreDataStores

/// Reads the history of a store that Core Data would have written, from the file to lines of JSON. The baseline steps
/// through the same rows and does nothing with them.
struct CoreDataBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    private static let model = StoreModel([
        .init(
            "Usage",
            attributes: [
                .init("identifier", .uuid, isPreserved: true), .init("seconds", .integer64),
                .init("startedAt", .date), .init("name", .string, isPreserved: true),
            ], relationships: [.init("device", to: "Device", inverse: "usages")]),
        .init(
            "Device", attributes: [.init("name", .string), .init("lastSeen", .date)],
            relationships: [
                .init("usages", to: "Usage", isToMany: true, inverse: "device"),
                .init("user", to: "User", inverse: "devices"),
            ]),
        .init("User", relationships: [.init("devices", to: "Device", isToMany: true, inverse: "user")]),
    ])

    func measure(_: inout [String]) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let store = "\(folder)/store.sqlite"
        let count = try make(store)
        var (ours, plain): ([Double], [Double]) = ([], [])
        for _ in 0..<sizes.rounds {
            plain.append(Double(count) / (try time([Workplace.program("bench-coredata"), store])))
            ours.append(
                Double(count)
                    / (try time([Workplace.program("historyctl"), "history", store, "--format", "json"])))
        }
        return [
            Figure(
                "a Core Data history of \(NumberText.text(Double(count))) changes", "to lines of JSON",
                rounds: ours,
                .perSecond, against: .init(name: "a loop in C without names or JSON", rounds: plain),
                aim: .atLeast(400_000))
        ]
    }

    private func time(_ command: [String]) throws -> Double {
        let start = Clock.now
        guard try Child(command).waitForEnd().status == 0 else { throw BenchError("\(command[0]) failed.") }
        return Double(Clock.now - start) / 1e9
    }

    /// Some transactions of 20 changes, as often as it takes.
    private func make(_ path: String) throws -> Int {
        var random = SeededRandom(seed: 1)
        let store = try GeneratedStore(path, Self.model, random: random)
        let transactions = 1000
        for number in 0..<transactions {
            let changes = (1...20).map { index -> GeneratedStore.Change in
                let object = Int64(number * 20 + index)
                switch index % 4 {
                case 0: return .init("Usage", object, .insert)
                case 1:
                    return .init(
                        "Usage", object, .delete(["name": .text("app"), "identifier": .any(.uuid, &random)]))
                case 2: return .init("Device", object, .update(["lastSeen", "name"]))
                default: return .init("Usage", object, .update(["seconds", "device"]))
                }
            }
            try store.commit(.init(author: number % 3 == 0 ? "sync" : nil), changes)
        }
        let last = store.transactions.last?.changes.last?.number ?? 0
        store.close()
        let copies = max(1, sizes.changes / (transactions * 20))
        let connection = try Connection(path)
        try connection.execute("PRAGMA synchronous = OFF; BEGIN")
        for copy in 1..<max(2, copies) where copies > 1 {
            try connection.execute(
                """
                INSERT INTO ATRANSACTION SELECT Z_PK + \(copy * transactions), Z_ENT, Z_OPT, ZAUTHORTS, ZBUNDLEIDTS,
                    ZCONTEXTNAMETS, ZPROCESSIDTS, ZTIMESTAMP, NULL, NULL, NULL, NULL, NULL
                    FROM ATRANSACTION WHERE Z_PK <= \(transactions);
                INSERT INTO ACHANGE SELECT Z_PK + \(Int64(copy) * last), Z_ENT, Z_OPT, ZCHANGETYPE, ZENTITY, ZENTITYPK,
                    ZTRANSACTIONID + \(copy * transactions), ZCOLUMNS, ZTOMBSTONE0, ZTOMBSTONE1
                    FROM ACHANGE WHERE Z_PK <= \(last);
                """)
        }
        try connection.execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")
        return copies * transactions * 20
    }
}
