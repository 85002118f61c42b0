import PersistentHistory

/// Keeps a client from filling the log: of the lines of one kind that one user causes, it writes the first, and
/// from then on at intervals the last one since, with the number of suppressed lines.
final class RepeatedLines: Sendable {
    /// Writes a line; the argument is the end of the line, which gives the number of suppressed lines.
    typealias Write = @Sendable (_ more: String) -> Void

    private struct Kind: Hashable {
        let name: String
        let userID: UInt32
    }

    private typealias Lines = Throttle<Kind, (count: Int, last: Write)>

    private let lines: Locked<Lines>

    init(period: Duration = .seconds(60)) {
        lines = Locked(Lines(period: period) { $0 = ($0.count + 1, $1.last) })
    }

    func log(_ kind: String, by peer: Peer, _ write: @escaping Write) {
        let period = lines.withLock(\.period).components.seconds
        Lines.log((1, write), of: Kind(name: kind, userID: peer.userID), in: lines) { count, last in
            last(count == 1 ? "" : " (\(count) times in \(period) s)")
        }
    }
}
