import PersistentHistory

/// The current end of a stream, and the head of its newest snapshot.
package struct StreamEnd {
    package let state: StreamState
    /// The last message that is not foreign.
    package let last: GroupHeader?
    package let head: SnapshotHeads.Head?
    /// The foreign messages after it.
    let foreign: [ForeignNote]

    /// How many messages to examine before falling back to the last `begin` message.
    private static let most: UInt64 = 256

    /// - Throws: `NATSError`, `JetStreamError`.
    package init(_ names: StreamName, _ jetStream: JetStream) throws {
        state = try jetStream.state(of: names.history)
        var found: GroupHeader?
        var foreign: [ForeignNote] = []
        if state.messages > 0, state.last >= state.first {
            var sequence = state.last
            while found == nil, sequence >= max(1, state.first), state.last - sequence < Self.most {
                if let message = try jetStream.message(sequence, of: names.history) {
                    switch message.content {
                    case .success(let header):
                        let before =
                            sequence > state.first
                            ? try jetStream.message(sequence - 1, of: names.history)?.messageID : nil
                        if header.fits(message.messageID, behind: before) {
                            found = header
                        } else {
                            foreign.append(message.foreign(.unchained, in: names.history))
                        }
                    case .failure(let reason):
                        foreign.append(message.foreign(reason, in: names.history))
                    }
                }
                sequence -= 1
            }
            if found == nil, let message = try jetStream.last(names.begin, of: names.history) {
                found = message.header.flatMap { $0.fits(message.messageID, behind: nil) ? $0 : nil }
            }
        }
        let heads = try SnapshotHeads(names, jetStream)
        last = found
        head = heads.newest
        self.foreign = foreign + heads.foreign
    }
}

/// A foreign message, which is skipped.
struct ForeignNote: Hashable {
    let stream: String
    let sequence: UInt64
    let subject: String
    let reason: ForeignMessage
}

extension JetStream.Stored {
    func foreign(_ reason: ForeignMessage, in stream: String) -> ForeignNote {
        ForeignNote(stream: stream, sequence: sequence, subject: subject, reason: reason)
    }
}

/// The heads of a stream's snapshots.
package struct SnapshotHeads {
    package struct Head: Hashable {
        let sequence: UInt64
        package let header: GroupHeader
        let content: GroupHeader.SnapshotHead
    }

    /// The last head if it is valid; otherwise all valid heads, the newest last.
    private(set) var heads: [Head] = []
    private(set) var foreign: [ForeignNote] = []
    /// The sequence of the last message on their subject.
    private(set) var last: UInt64 = 0

    var newest: Head? { heads.last }

    /// No more are examined.
    private static let most = 1000

    /// - Parameter isComplete: Whether to read earlier heads as well.
    /// - Throws: `NATSError`, `JetStreamError`.
    init(_ names: StreamName, _ jetStream: JetStream, isComplete: Bool = false) throws {
        guard let last = try jetStream.last(names.snapshotHead, of: names.snapshots) else { return }
        self.last = last.sequence
        take(last.sequence, last.content, names)
        guard isComplete || heads.isEmpty else { return }
        (heads, foreign) = ([], [])
        let consumer = try PullConsumer(
            jetStream, of: names.snapshots, from: 1, subject: names.snapshotHead, timeout: .seconds(5))
        for _ in 0..<Self.most {
            guard let message = try consumer.nextInTime() else { break }
            take(message.sequence, message.content, names)
            if message.sequence >= last.sequence { break }
        }
        heads.sort { ($0.header.epoch, $0.sequence) < ($1.header.epoch, $1.sequence) }
    }

    private mutating func take(
        _ sequence: UInt64, _ content: Result<GroupHeader, ForeignMessage>, _ names: StreamName
    ) {
        switch content {
        case .success(let header):
            // Head and parts are chained to each other.
            guard let content = header.head,
                content.firstSequence + UInt64(content.parts) == sequence
            else {
                foreign.append(
                    ForeignNote(
                        stream: names.snapshots, sequence: sequence, subject: names.snapshotHead,
                        reason: .withoutParts))
                return
            }
            heads.append(Head(sequence: sequence, header: header, content: content))
        case .failure(let reason):
            foreign.append(
                ForeignNote(
                    stream: names.snapshots, sequence: sequence, subject: names.snapshotHead, reason: reason))
        }
    }
}
