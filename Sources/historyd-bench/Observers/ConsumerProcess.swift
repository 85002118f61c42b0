import Glibc

/// A bare consumer in its own process. It stamps what it finds itself, or its plugin does.
final class ConsumerProcess {
    enum Mode: String {
        case watch, naive, drain
        /// The consumer in Swift, which needs a plugin.
        case straight
    }

    let stamps: StampReader
    let consumer: Child
    private let plugin: Child?

    /// Starts it, and waits until it listens if it does so.
    init(_ mode: Mode, _ store: String, _ workplace: Workplace, plugin hasPlugin: Bool = false) throws {
        let program = mode == .straight ? workplace.bench : workplace.consumer
        let command = [program, mode.rawValue, store]
        let ends = try Child.pipe()
        defer { close(ends.writing) }
        if mode == .straight {
            defer { close(ends.reading) }
            let pipe = "\(try workplace.makeFolder())/stamps"
            stamps = try StampReader(named: pipe)
            let answers = try Child.pipe()
            defer { for end in [answers.reading, answers.writing] { close(end) } }
            plugin = try Child([workplace.plugin, pipe], input: ends.reading, output: answers.writing)
            consumer = try Child(command, input: answers.reading, output: ends.writing)
        } else if hasPlugin {
            defer { close(ends.reading) }
            let pipe = "\(try workplace.makeFolder())/stamps"
            stamps = try StampReader(named: pipe)
            plugin = try Child([workplace.plugin, pipe], input: ends.reading)
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
