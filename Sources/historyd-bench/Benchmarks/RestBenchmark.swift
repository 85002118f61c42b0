/// What a daemon costs while nothing happens, beside a bare loop that waits in the same way.
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
        // Each has worked, and has come to rest again.
        for (writer, stamps) in zip(writers, [daemon.stamps, loop.stamps]) {
            _ = try writer.commit()
            _ = try stamps.next()
        }
        Clock.pause(microseconds: 1_000_000)

        let before = try readings(daemon, loop)
        Clock.pause(microseconds: Self.seconds * 1_000_000)
        let after = try readings(daemon, loop)
        return [
            figure("memory, VmRSS", .kibibytes, after.map(\.resident)),
            figure("memory, Pss", .kibibytes, after.map(\.proportional)),
            figure("threads", .count, after.map(\.threads)),
            figure("wake-ups in \(Self.seconds) s", .count, zip(after, before).map { $0.waits(since: $1) }),
            figure("processor ticks in \(Self.seconds) s", .count, zip(after, before).map { $0.ticks - $1.ticks }),
        ]
    }

    private func readings(_ daemon: DaemonProcess, _ loop: BareProcess) throws -> [ProcessReading] {
        try [daemon.child.processID, loop.children[0].processID].map { try ProcessReading(of: $0) }
    }

    private func figure(_ name: String, _ unit: Figure.Unit, _ values: [Double]) -> Figure {
        Figure("an idle daemon", name, values[0], unit, against: .init(name: "bare loop at rest", value: values[1]))
    }
}
