/// Merges changed rows into a consumer's replica. The baseline copies the same rows with one SQL statement into a
/// file of the same kind.
struct ReplicaBenchmark: Benchmark {
    /// The change made to the rows.
    private enum Change: String, CaseIterable {
        case inserted, updated

        /// The baseline's SQL for the same change.
        var verb: String { self == .inserted ? "INSERT" : "INSERT OR REPLACE" }
    }

    private static let replica = "replica.sqlite"

    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let store = "\(folder)/store.sqlite"
        try BenchStore.make(store)
        let reader = DaemonSetup.Store.Author(
            name: BenchStore.reader,
            contexts: [.init(name: "view", path: "\(folder)/\(Self.replica)")])
        let setup = DaemonSetup(stores: [.init(store, readers: [reader])], hooks: [])
        let home = try DaemonHome(workplace, setup, in: folder)
        // The replica is filled from the store, which is empty.
        try home.runOnce()
        var figures: [Figure] = []
        for change in Change.allCases {
            try home.keep([Self.replica])
            try make(change, in: store)
            figures += try measure(change, home, store)
        }
        return figures
    }

    /// In transactions of 1,000 rows.
    private func make(_ change: Change, in store: String) throws {
        switch change {
        case .inserted:
            let writer = try StoreWriter(store, synchronous: "OFF")
            for _ in 0..<(sizes.changes / 1000) { _ = try writer.commit(rows: 1000) }
        case .updated:
            let connection = try Connection(store)
            try connection.execute("PRAGMA synchronous = OFF")
            try connection.declareAuthor(BenchStore.writer)
            let update = try Statement(
                connection, "UPDATE item SET quantity = quantity + 1 WHERE id > ?1 AND id <= ?1 + 1000")
            for step in 0..<(sizes.changes / 1000) { try update.run(Int64(step) * 1000) }
        }
    }

    private func measure(_ change: Change, _ home: DaemonHome, _ store: String) throws -> [Figure] {
        var merges: [DaemonHome.Cost] = []
        var copies: [Double] = []
        // Each takes seconds.
        for _ in 0..<min(sizes.rounds, 3) {
            try home.comeBack([Self.replica])
            copies.append(try copy(change, from: store, home))
            try home.comeBack([Self.replica])
            merges.append(try home.runOnce())
            try check(store, home)
        }
        let group = "a replica takes in \(NumberText.text(Double(sizes.changes))) rows that were \(change)"
        let baseline = "\(change.verb) … SELECT through ATTACH"
        return [
            Figure(
                group, "from start to end (historyd --once)", rounds: merges.map { $0.seconds * 1000 },
                .milliseconds,
                against: .init(name: baseline, rounds: copies.map { $0 * 1000 }), aim: .ratioAtMost(4)),
            Figure(group, "processor time", rounds: merges.map { $0.processor * 1000 }, .milliseconds),
        ]
    }

    /// Seconds for the copy into the replica's file as it was before the merge.
    private func copy(_ change: Change, from store: String, _ home: DaemonHome) throws -> Double {
        let connection = try Connection(store)
        try connection.execute(
            """
            ATTACH '\(home.folder)/\(Self.replica)' AS copy;
            PRAGMA copy.synchronous = NORMAL;
            """)
        let start = Clock.now
        try connection.execute("\(change.verb) INTO copy.item SELECT * FROM main.item")
        return Double(Clock.now - start) / 1e9
    }

    private func check(_ store: String, _ home: DaemonHome) throws {
        let connection = try Connection(store)
        try connection.execute("ATTACH '\(home.folder)/\(Self.replica)' AS copy")
        let missing = try connection.number(
            "SELECT count(*) FROM (SELECT * FROM main.item EXCEPT SELECT * FROM copy.item)")
        guard missing == 0 else { throw BenchError("The replica lacks \(missing) rows.") }
    }
}
