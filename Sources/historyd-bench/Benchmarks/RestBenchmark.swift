/// What a daemon costs while nothing happens, beside a bare loop that waits for the same, and beside a
/// program with Swift's concurrency that waits for nothing.
struct RestBenchmark {
    private static let seconds: UInt32 = 10

    private let workplace: Workplace

    init(_ workplace: Workplace) { self.workplace = workplace }

    func run() throws -> [Figure] {
        let folder = try workplace.makeFolder("rest")
        defer { Progress.attempt { try workplace.remove(folder) } }
        let stores = ["daemon", "loop"].map { "\(folder)/\($0)" }
        for store in stores { try BenchStore.make(store) }
        let writers = try stores.map { try StoreWriter($0, synchronous: "NORMAL") }
        let daemon = try DaemonProcess(workplace, stores: [stores[0]])
        defer { Progress.attempt { try daemon.stop() } }
        let loop = try BareProcess.watching(stores[1], workplace, plugin: false)
        defer { loop.end() }
        let idle = try Child([workplace.bench, "idle"])
        defer { idle.end() }
        // Each has worked, and has come to rest again.
        for (writer, stamps) in zip(writers, [daemon.stamps, loop.stamps]) {
            _ = try writer.commit()
            _ = try stamps.next()
        }
        // The runtime lets its threads go after five idle seconds.
        Clock.pause(microseconds: 7_000_000)

        let processes = [daemon.child, loop.children[0], idle].map(\.processID)
        let before = try processes.map { try ProcessReading(of: $0) }
        Clock.pause(microseconds: Self.seconds * 1_000_000)
        let after = try processes.map { try ProcessReading(of: $0) }
        return figures("memory, VmRSS", .kibibytes, after.map(\.resident))
            + figures("memory, Pss", .kibibytes, after.map(\.proportional))
            + figures("threads", .count, after.map(\.threads))
            + figures("wake-ups in \(Self.seconds) s", .count, zip(after, before).map { $0.waits(since: $1) })
            + figures(
                "processor ticks in \(Self.seconds) s", .count, zip(after, before).map { $0.ticks - $1.ticks })
    }

    private func figures(_ name: String, _ unit: Figure.Unit, _ values: [Double]) -> [Figure] {
        ["bare loop at rest", "idle Swift program"].enumerated().map { place, baseline in
            Figure(
                "an idle daemon", name, values[0], unit,
                against: .init(name: baseline, value: values[place + 1]))
        }
    }
}
