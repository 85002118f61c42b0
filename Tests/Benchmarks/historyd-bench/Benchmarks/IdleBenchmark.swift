/// Memory and wake-ups of an idle daemon. The baselines are a bare consumer that waits for the same store, and a
/// program with Swift's concurrency that waits for nothing.
struct IdleBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    private var seconds: Int { sizes.seconds }

    func measure(_: inout [String]) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let stores = ["daemon", "consumer"].map { "\(folder)/\($0)" }
        for store in stores { try BenchStore.make(store) }
        let writers = try stores.map { try StoreWriter($0, synchronous: "NORMAL") }
        let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(stores[0])]))
        defer { daemon.end() }
        let consumer = try ConsumerProcess(.watch, stores[1], workplace)
        defer { consumer.end() }
        let idle = try Child([Workplace.bench, "wait"])
        defer { idle.end() }
        // Each has worked, and has come to rest again.
        for (writer, stamps) in zip(writers, [daemon.stamps, consumer.stamps]) {
            _ = try writer.commit()
            _ = try stamps.next()
        }
        // The runtime lets its threads go after five idle seconds, and a plugin is known to work after ten.
        Clock.pause(microseconds: 12_000_000)

        let processes = [daemon.child, consumer.consumer, idle].map(\.processID)
        let before = try processes.map { try ProcessReading(of: $0) }
        Clock.pause(microseconds: UInt32(seconds) * 1_000_000)
        let after = try processes.map { try ProcessReading(of: $0) }
        let wakeUps = zip(after, before).map { $0.waits(since: $1) }
        let time = zip(after, before).map { ($0.seconds - $1.seconds) * 1e6 }
        return figures("wake-ups in \(seconds) s", .count, wakeUps, aim: .atMost(0))
            + figures("processor time in \(seconds) s", .microseconds, time, aim: .atMost(0))
            + figures("memory, VmRSS", .kibibytes, after.map(\.resident), aim: .atMost(20 * 1024))
            + figures("memory, Pss", .kibibytes, after.map(\.proportional))
            + figures("threads", .count, after.map(\.threads))
    }

    private func figures(
        _ name: String, _ unit: Figure.Unit, _ values: [Double], aim: Aim? = nil
    ) -> [Figure] {
        [ObserverField.consumer, "idle Swift program"].enumerated().map { index, baseline in
            Figure(
                "an idle daemon", name, values[0], unit,
                against: .init(name: baseline, value: values[index + 1]), aim: index == 0 ? aim : nil)
        }
    }
}
