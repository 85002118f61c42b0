package import HistoryMirrors

/// Whether a snapshot that was not completed can be continued in a stream.
package enum SnapshotResumption {
    /// How many parts of a snapshot a stream has, if nothing stands behind them.
    ///
    /// - Parameters:
    ///   - wanted: Any message of the snapshot.
    ///   - first: The sequence of its first part.
    ///   - last: The last message of the stream, and its sequence.
    /// - Returns: Nil if the snapshot has to begin again.
    package static func partsThere(
        of wanted: GroupHeader, from first: UInt64, last: GroupHeader?, at sequence: UInt64
    ) -> Int? {
        guard let last, last.store == wanted.store, last.epoch == wanted.epoch, last.through == wanted.through
        else { return nil }
        switch last.kind {
        case .begin where sequence + 1 == first: return 0
        case .snapshot where sequence >= first && UInt64(last.part) == sequence - first: return last.part + 1
        default: return nil
        }
    }

    /// The subjects whose parts belong to no snapshot that is kept, or under way.
    package static func leftovers(
        among subjects: some Sequence<String>, _ names: StreamName, kept: some Sequence<UInt64>
    ) -> [String] {
        let kept = Set(kept)
        return subjects.filter { subject in
            names.firstPart(inSubject: subject).map { !kept.contains($0) } ?? false
        }.sorted()
    }
}

/// When a new mirror would find a gap between the newest snapshot and the stream.
package struct StreamBeginning: Sendable {
    /// The sequence of the stream's first message, as of which this is known.
    private var sequence: UInt64?
    /// Where a mirror has to be to take what the stream has.
    private var needed: StreamPosition?

    package init() {}

    /// So many messages of somebody else are skipped.
    private static let most: UInt64 = 16

    /// Looks at the stream's first messages, if others were first at the last look.
    ///
    /// - Parameter message: The header of the message with a sequence; nil for one of somebody else.
    package mutating func look(
        _ state: StreamState, epoch: Int64, _ message: (UInt64) throws -> GroupHeader?
    ) rethrows {
        guard state.messages > 0, state.first <= state.last else {
            (sequence, needed) = (nil, nil)
            return
        }
        guard sequence != state.first else { return }
        sequence = state.first
        needed = nil
        for number in state.first...min(state.last, state.first + Self.most) {
            guard let header = try message(number), header.epoch == epoch else { continue }
            // A group whose first part is gone cannot be applied.
            needed = header.kind == .group && header.part == 0 ? header.after : header.through
            return
        }
    }

    /// Whether a mirror that takes a snapshot could not go on in the stream.
    package func isBehind(_ snapshot: StreamPosition) -> Bool {
        needed.map { snapshot.number < $0.number } ?? false
    }
}
