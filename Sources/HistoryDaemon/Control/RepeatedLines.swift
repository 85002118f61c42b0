import PersistentHistory

/// Keeps what a client can make happen as often as it likes from filling the log: of lines of one kind that
/// one user causes, the first is written, and then once in a while the last of those that came since, with
/// their number.
final class RepeatedLines: Sendable {
    /// Writes a line; its argument is the end of the line: how many suppressed lines it represents.
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
