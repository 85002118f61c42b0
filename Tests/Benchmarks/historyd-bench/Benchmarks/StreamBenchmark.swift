import FoundationEssentials
import Glibc

/// How fast a store's history gets to a mirror over a NATS server on the same machine.
///
/// A mirror's commits are seen by the bare C consumer, which watches it as any consumer would.
struct StreamBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    private var rounds: Int { min(sizes.rounds, 3) }

    func measure(_: inout [String]) throws -> [Figure] {
        for program in ["historyd-nats", "bench-stream"].map(Workplace.program) where access(program, X_OK) != 0
        {
            throw Tool.Missing(reason: "there is no program \"\(program)\"; it needs libnats-dev.")
        }
        let server = try NATSServer(workplace)
        defer { server.end() }
        return try latency(server) + backlog(server) + snapshot(server)
    }

    // MARK: Latency

    private func latency(_ server: NATSServer) throws -> [Figure] {
        let pairs = try StreamPair.Kind.allCases.map { kind in
            try StreamPair(kind, workplace, server)
        }
        defer { for pair in pairs { pair.end() } }
        let observers = try pairs.map { pair in
            let writer = try StoreWriter(pair.store, synchronous: "NORMAL")
            _ = try writer.commit()
            try pair.publish(after: 0)
            try pair.follow()
            try pair.awaitRow(writer.last)
            let (consumer, follower) = try pair.observe()
            return Observer(pair.kind.rawValue, writer, consumer.stamps, follower, end: consumer.end)
        }
        defer { for observer in observers { observer.end() } }
        var figures: [Figure] = []
        for pace in Pace.allCases { figures += try latency(observers, pace) }
        return figures + (try idle(pairs))
    }

    private func latency(_ observers: [Observer], _ pace: Pace) throws -> [Figure] {
        let results = try pace.measure(observers, sizes, rounds: rounds)
        func quantiles(_ index: Int, _ share: Double) -> [Double] {
            results[index].map { $0.latencies.quantile(share) }
        }
        return [("p50", 0.5, 500.0), ("p99", 0.99, 3000)].map { label, share, aim in
            Figure(
                "from COMMIT's return to the mirror's commit, \(pace.text)", "\(observers[0].name), \(label)",
                rounds: quantiles(0, share), .microseconds,
                against: .init(name: observers[1].name, rounds: quantiles(1, share)),
                aim: pace == .none ? nil : .atMost(aim))
        }
    }

    /// Memory and processor time while nothing is written.
    private func idle(_ pairs: [StreamPair]) throws -> [Figure] {
        let before = try pairs.map { try $0.readings() }
        Clock.pause(microseconds: UInt32(sizes.seconds) * 1_000_000)
        let after = try pairs.map { try $0.readings() }
        return ["publisher", "follower"].enumerated().flatMap { index, name in
            let spent = pairs.indices.map { (after[$0][index].seconds - before[$0][index].seconds) * 1e6 }
            let group = "an idle publisher and follower"
            let bare = pairs[1].kind.rawValue
            return [
                Figure(
                    group, "\(name)'s memory, VmRSS", after[0][index].resident, .kibibytes,
                    against: .init(name: bare, value: after[1][index].resident), aim: .atMost(30 * 1024)),
                Figure(
                    group, "\(name)'s processor time in \(sizes.seconds) s", spent[0], .microseconds,
                    against: .init(name: bare, value: spent[1])),
            ]
        }
    }

    // MARK: Backlog

    private func backlog(_ server: NATSServer) throws -> [Figure] {
        let count = min(sizes.backlog, 200_000)
        var seconds: [[Double]] = []
        for kind in StreamPair.Kind.allCases {
            let pair = try StreamPair(kind, workplace, server)
            defer { pair.end() }
            let writer = try StoreWriter(pair.store, synchronous: "OFF")
            _ = try writer.commit()
            try pair.publish(after: 0)
            try pair.follow()
            try pair.awaitRow(writer.last)
            seconds.append(
                try (0..<rounds).map { _ in
                    pair.stopPublishing()
                    let before = writer.last
                    for _ in 0..<count { _ = try writer.commit() }
                    let start = Clock.now
                    try pair.publish(after: before)
                    try pair.awaitRow(writer.last)
                    return Double(Clock.now - start) / 1e9
                })
        }
        return [
            Figure(
                "a backlog of \(NumberText.text(Double(count))) single-row transactions, to the mirror",
                "transactions", rounds: seconds[0].map { Double(count) / $0 }, .perSecond,
                against: .init(
                    name: StreamPair.Kind.bare.rawValue, rounds: seconds[1].map { Double(count) / $0 }),
                aim: .atLeast(100_000))
        ]
    }

    // MARK: Snapshot

    /// From the start of both programs until a new mirror has all rows. The bare programs send the history of the rows.
    private func snapshot(_ server: NATSServer) throws -> [Figure] {
        let rows = sizes.changes
        let rates = try StreamPair.Kind.allCases.map { kind in
            try (0..<rounds).map { _ in
                let pair = try StreamPair(kind, workplace, server)
                defer { pair.end() }
                let writer = try StoreWriter(pair.store, synchronous: "OFF")
                _ = try writer.commit(rows: rows)
                let bytes = try Connection(pair.store).number(
                    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
                let start = Clock.now
                try pair.publish(after: 0)
                try pair.follow()
                try pair.awaitRow(writer.last)
                return Double(bytes) / (Double(Clock.now - start) / 1e9)
            }
        }
        return [
            Figure(
                "a new mirror of \(NumberText.text(Double(rows))) rows", "bytes of the store", rounds: rates[0],
                .perSecond, against: .init(name: StreamPair.Kind.bare.rawValue, rounds: rates[1]),
                aim: .atLeast(50_000_000))
        ]
    }
}
