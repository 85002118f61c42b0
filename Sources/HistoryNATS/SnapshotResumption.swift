package import HistoryMirrors

/// Determines whether an incomplete snapshot in a stream can be continued.
package enum SnapshotResumption {
    /// How many parts of a snapshot a stream has, if no other message follows them.
    ///
    /// - Parameters:
    ///   - wanted: Any message of the snapshot.
    ///   - first: The sequence of its first part.
    ///   - last: The last message of the stream, and its sequence.
    /// - Returns: Nil if the snapshot must start over.
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

    /// The subjects whose parts belong to no snapshot that is kept or being sent.
    package static func leftovers(
        among subjects: some Sequence<String>, _ names: StreamName, kept: some Sequence<UInt64>
    ) -> [String] {
        let kept = Set(kept)
        return subjects.filter { subject in
            names.firstPart(inSubject: subject).map { !kept.contains($0) } ?? false
        }.sorted()
    }
}

/// Detects a gap between the newest snapshot and the stream, which a new mirror would find.
package struct StreamBeginning: Sendable {
    /// The sequence of the stream's first message at the last check.
    private var sequence: UInt64?
    /// The position that a mirror needs to continue with the stream.
    private var needed: StreamPosition?

    package init() {}

    /// The number of foreign messages to skip.
    private static let most: UInt64 = 16

    /// Checks the stream's first messages if they have changed since the last check.
    ///
    /// - Parameters:
    ///   - state: The stream's state.
    ///   - epoch: The current epoch.
    ///   - message: Returns the header of the message with a sequence; nil for a foreign one.
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
            // A group whose first part was deleted cannot be applied.
            needed = header.kind == .group && header.part == 0 ? header.after : header.through
            return
        }
    }

    /// Whether a mirror with this snapshot could not continue with the stream.
    package func isBehind(_ snapshot: StreamPosition) -> Bool {
        needed.map { snapshot.number < $0.number } ?? false
    }
}
