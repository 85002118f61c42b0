package import HistoryMirrors

/// Decides what a follower does with each message, in stream order.
package struct GroupAssembler: Sendable {
    package enum Step: Hashable, Sendable {
        /// The mirror has it already, or it belongs to an unfinished group.
        case ignore
        /// Keep it. If it is a group's first part, discard earlier parts.
        case keep(isFirst: Bool)
        /// It completes its group.
        case apply
        /// The stream does not continue at the mirror's position.
        case needSnapshot(String)
    }

    /// The mirror's position; nil if it is empty.
    package var position: MirrorPosition?
    private var session: String?
    private var group: (through: StreamPosition, nextPart: Int)?

    package init(position: MirrorPosition?) { self.position = position }

    /// - Parameter session: The publisher's session; see `GroupHeader.session(of:)`.
    package mutating func take(_ header: GroupHeader, session: String) -> Step {
        guard let position else { return .needSnapshot("the mirror is new") }
        if header.kind == .begin {
            self.session = session
            group = nil
        } else if self.session == nil {
            self.session = session
        }
        guard header.epoch >= position.epoch else { return .ignore }
        guard header.epoch == position.epoch, header.store == position.store else {
            return .needSnapshot("the stream has begun a new epoch, \(header.epoch)")
        }
        let mine = position.position
        if header.reached.contradicts(mine) || header.after.contradicts(mine) {
            return .needSnapshot("the stream has another transaction at \(mine.number)")
        }
        switch header.kind {
        case .begin where header.through.number > mine.number:
            return .needSnapshot(
                "the stream goes on at \(header.through.number), and the mirror is at \(mine.number)")
        case .group where session == self.session: return take(header, mine)
        default: return .ignore
        }
    }

    private mutating func take(_ header: GroupHeader, _ mine: StreamPosition) -> Step {
        // This also covers a part whose group's first part is no longer in the stream.
        if header.after.number > mine.number {
            return .needSnapshot(
                "the stream goes on at \(header.after.number), and the mirror is at \(mine.number)")
        }
        if header.part == 0 {
            group = (header.through, 0)
        } else if group?.through != header.through || group?.nextPart != header.part {
            group = nil
            // The server has all parts of a group if it has the last one, because they are chained.
            guard header.isLast, header.through.number > mine.number else { return .ignore }
            return .needSnapshot("the stream has only the end of the group that the mirror needs")
        }
        group?.nextPart += 1
        if header.through.number <= mine.number { return .ignore }
        if header.isLast {
            group = nil
            return .apply
        }
        return .keep(isFirst: header.part == 0)
    }
}
