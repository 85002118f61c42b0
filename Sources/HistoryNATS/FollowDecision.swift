package import HistoryMirrors

/// How a follower continues, given the mirror's position and its stream.
package enum FollowDecision: Hashable, Sendable {
    /// The stream continues at the mirror's position, or the mirror has all of it.
    case goOn
    /// The newest snapshot replaces the mirror's content.
    case refill(reason: String)
    /// A snapshot is needed that does not exist yet: the publisher makes one.
    case awaitSnapshot(reason: String)
    /// Neither the stream nor its snapshot is a later state of the mirror.
    case refuse(reason: String)

    /// - Parameters:
    ///   - last: The stream's last message; nil if there is none.
    ///   - head: The head of the newest snapshot.
    ///   - lastSequence: The stream's last sequence, even if that message was deleted.
    ///   - name: The stream's name, for the advice to the operator.
    package init(
        _ mirror: MirrorPosition?, last: GroupHeader?, head: GroupHeader?, lastSequence: UInt64, name: String
    ) {
        guard let mirror else {
            self = head == nil ? .awaitSnapshot(reason: "it is new") : .refill(reason: "it is new")
            return
        }
        func replace(_ reason: String) -> Self {
            head.map { Self.helps($0, mirror, isRepair: true) } ?? false
                ? .refill(reason: reason) : .awaitSnapshot(reason: reason)
        }
        let mine = mirror.position
        // A new epoch starts with its snapshot.
        guard let newest = [last, head].compactMap(\.self).max(by: { $0.epoch < $1.epoch }) else {
            self = .refuse(reason: "the stream has neither messages nor snapshots: is its publisher running?")
            return
        }
        if newest.epoch < mirror.epoch {
            self = .refuse(
                reason: """
                    the stream is in epoch \(newest.epoch), and the mirror has seen epoch \(mirror.epoch). If the \
                    publisher does not begin a later one by itself, run on its machine: historyd-nats publish \
                    --new-epoch \(name)
                    """)
        } else if newest.epoch > mirror.epoch {
            let what =
                newest.store == mirror.store ? "a new epoch" : "another store, \(newest.store), in a new epoch"
            self = replace("the stream has begun \(what), \(newest.epoch)")
        } else if let stranger = [last, head].compactMap(\.self).first(where: {
            $0.epoch == mirror.epoch && $0.store != mirror.store
        }) {
            self = .refuse(
                reason: """
                    the stream is of another store, \(stranger.store), in the mirror's epoch. Name another stream, or run on \
                    the publisher's machine: historyd-nats publish --new-epoch \(name)
                    """)
        } else {
            let end = last.flatMap { $0.epoch == mirror.epoch ? $0.reached : nil }
            let snapshot = head.flatMap { $0.epoch == mirror.epoch ? $0.through : nil }
            if end?.contradicts(mine) ?? false || snapshot?.contradicts(mine) ?? false {
                self = replace("the stream has another transaction at \(mine.number)")
            } else if let end, end.number >= mine.number {
                self = .goOn
            } else if let snapshot, snapshot.number > mine.number {
                self = .refill(
                    reason: "the snapshot at \(snapshot.number) is newer, and the stream ends before it")
            } else if let end {
                self = .refuse(
                    reason: """
                        the mirror is at \(mine.number), and the stream ends at \(end.number): the server has lost what \
                        came behind, and the publisher has not sent it again
                        """)
            } else if lastSequence <= mirror.sequence || snapshot == mine {
                // The messages have expired, but the mirror had received them.
                self = .goOn
            } else {
                self = .refuse(
                    reason: """
                        the stream's messages have expired, and whether the mirror had all of them is known when the \
                        publisher is back
                        """)
            }
        }
    }

    /// Whether a snapshot advances a mirror, or replaces a state that contradicts it.
    ///
    /// - Parameter isRepair: Whether an older snapshot helps as well, because the stream continues after it.
    package static func helps(_ snapshot: GroupHeader, _ mirror: MirrorPosition?, isRepair: Bool = false)
        -> Bool
    {
        guard let mirror else { return true }
        if snapshot.epoch != mirror.epoch { return snapshot.epoch > mirror.epoch }
        return snapshot.store == mirror.store
            && (isRepair || snapshot.through.number > mirror.position.number
                || snapshot.through.contradicts(mirror.position))
    }
}
