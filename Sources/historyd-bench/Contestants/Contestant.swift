/// An observer of commits, with the writer that makes them.
protocol Contestant {
    var name: String { get }
    var role: ContestantRole { get }

    /// Commits a row, and waits until the other has it.
    ///
    /// - Returns: microseconds from COMMIT's return until then; nil if nothing was heard for `timeout`, milliseconds.
    func latency() throws -> Double?

    /// Ends what was started for it.
    func end()
}

/// What a contestant is compared to.
enum ContestantRole {
    case historyd
    /// The bare consumer, which does the least that can be done.
    case floor
    /// The bare consumer with all that historyd's way has: a pipe and a plugin.
    case sameWay
    /// Another bare consumer, compared to the first.
    case variant
    /// Compared to historyd, which is to be ahead.
    case rival
}

extension Contestant {
    /// For observers that may miss a commit: nothing would come until the next one.
    static var timeout: Int32 { 20 }
}

/// An observer that stamps: historyd's plugin, or the bare consumer.
final class StampContestant: Contestant {
    let name: String
    let role: ContestantRole
    private let writer: StoreWriter
    private let stamps: StampReader
    private let mayMiss: Bool
    private let ending: () -> Void

    init(
        _ name: String, _ role: ContestantRole, _ writer: StoreWriter, _ stamps: StampReader,
        mayMiss: Bool = false,
        end: @escaping () -> Void = {}
    ) {
        self.name = name
        self.role = role
        self.writer = writer
        self.stamps = stamps
        self.mayMiss = mayMiss
        ending = end
    }

    func latency() throws -> Double? {
        let committed = try writer.commit()
        while true {
            if mayMiss, !stamps.wait(milliseconds: Self.timeout) { return nil }
            let stamp = try stamps.next()
            guard stamp.object < writer.last else { return Double(stamp.time - committed) / 1000 }
        }
    }

    func end() { ending() }
}
