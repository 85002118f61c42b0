import PersistentHistory
import ServiceLifecycle

/// Keeps what a client can make happen as often as it likes from filling the log: of lines of one kind that
/// one user causes, the first is written, and then once in a while the last of those that came since, with
/// their number.
final class RepeatedLines: Service {
    /// Writes a line; its argument is the end of the line: how many suppressed lines it represents.
    typealias Write = @Sendable (_ more: String) -> Void

    private struct Kind: Hashable {
        let name: String
        let userID: UInt32
    }

    private struct Suppressed {
        var count = 0
        var last: Write?
    }

    private struct State {
        /// Of kinds of which a line was written less than a period ago.
        var suppressed: [Kind: Suppressed] = [:]
        /// In the order of their ends.
        var periods: [(kind: Kind, end: ContinuousClock.Instant)] = []
    }

    private let period: Duration
    private let state = Locked(State())
    private let wakeUp = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(period: Duration = .seconds(60)) { self.period = period }

    func log(_ kind: String, by peer: Peer, _ write: @escaping Write) {
        let kind = Kind(name: kind, userID: peer.userID)
        let isFirst = state.withLock { state in
            guard state.suppressed[kind] == nil else {
                state.suppressed[kind]?.count += 1
                state.suppressed[kind]?.last = write
                return false
            }
            begin(kind, &state)
            return true
        }
        guard isFirst else { return }
        write("")
        wakeUp.continuation.yield()
    }

    private func begin(_ kind: Kind, _ state: inout State) {
        state.suppressed[kind] = Suppressed()
        state.periods.append((kind, .now + period))
    }

    /// Writes what was suppressed, a period after the line before. Sleeps while there is nothing.
    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in self.wakeUp.stream {
                while let end = self.state.withLock({ $0.periods.first?.end }), !Task.isCancelled {
                    // Thrown is only that the daemon stops.
                    try? await Task.sleep(
                        for: max(Duration.zero, ContinuousClock.now.duration(to: end)), clock: .loop)
                    self.writeDue()
                }
            }
        }
    }

    private func writeDue() {
        let due = state.withLock { state in
            var due: [Suppressed] = []
            while let (kind, end) = state.periods.first, end <= .now {
                state.periods.removeFirst()
                guard let suppressed = state.suppressed.removeValue(forKey: kind), suppressed.count > 0 else {
                    continue
                }
                due.append(suppressed)
                begin(kind, &state)
            }
            return due
        }
        for suppressed in due {
            suppressed.last?(suppressed.count == 1 ? "" : " (\(suppressed.count) times in \(period.seconds) s)")
        }
    }
}

extension Duration {
    fileprivate var seconds: Int64 { components.seconds }
}
