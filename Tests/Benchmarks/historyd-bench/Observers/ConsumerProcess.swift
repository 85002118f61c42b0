import Glibc

/// A bare consumer in its own process. It stamps what it finds itself, or its plugin does.
final class ConsumerProcess {
    enum Mode: String {
        case watch, naive, drain
    }

    let stamps: StampReader
    let consumer: Child
    private let plugin: Child?

    /// Starts it, and waits until it listens if it does so.
    ///
    /// - Parameter tool: A command that runs the consumer's.
    init(
        _ mode: Mode, _ store: String, _ workplace: Workplace, plugin hasPlugin: Bool = false,
        under tool: [String] = []
    ) throws {
        let command = tool + [Workplace.program("bench-consumer"), mode.rawValue, store]
        let ends = try Child.pipe()
        defer { close(ends.writing) }
        if hasPlugin {
            defer { close(ends.reading) }
            let pipe = "\(try workplace.makeFolder())/stamps"
            stamps = try StampReader(named: pipe)
            plugin = try Child([Workplace.program("bench-plugin"), pipe], input: ends.reading)
            consumer = try Child(command + ["--requests"], output: ends.writing)
        } else {
            stamps = StampReader(ends.reading)
            plugin = nil
            consumer = try Child(command, output: ends.writing)
        }
        if mode != .drain { _ = try stamps.next() }
    }

    func end() {
        consumer.end()
        plugin?.end()
    }
}
