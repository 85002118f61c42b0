package import PersistentHistory

/// How a publisher continues, given the end of the stream and the store's relation to it.
package enum PublishDecision: Hashable, Sendable {
    /// The store continues where the stream ends.
    case goOn(epoch: Int64, after: StreamPosition)
    /// Followers need a snapshot, after which the stream continues.
    case startOver(epoch: Int64, reason: String)
    /// An operator must decide.
    case refuse(reason: String)

    /// - Parameters:
    ///   - last: The stream's last message; nil if it is empty.
    ///   - head: The head of the newest snapshot.
    ///   - wantsNewEpoch: Whether an operator has decided that the store is right and the stream is not.
    ///   - loss: The store's relation to a position.
    package init(
        last: GroupHeader?, head: GroupHeader?, wantsNewEpoch: Bool = false,
        loss: (StreamPosition, _ store: String) throws -> SourceLoss?
    ) rethrows {
        guard let known = last ?? head else {
            self = .startOver(epoch: 1, reason: "the stream is new")
            return
        }
        let epoch = max(known.epoch, head?.epoch ?? 0)
        if wantsNewEpoch {
            self = .startOver(epoch: epoch + 1, reason: "a new epoch was asked for")
            return
        }
        switch try loss(known.reached, known.store) {
        case nil where last == nil:
            self = .startOver(epoch: epoch, reason: "the stream has no messages left")
        case nil: self = .goOn(epoch: known.epoch, after: known.reached)
        case .expired:
            self = .startOver(epoch: epoch, reason: "the history behind the stream's end was deleted")
        case .schemaUnknown: self = .startOver(epoch: epoch, reason: "the schema has changed")
        case .restored: self = .startOver(epoch: epoch + 1, reason: "the store was restored from a backup")
        case .diverged:
            self = .refuse(
                reason: "at \(known.reached.number) the store has another transaction than the stream")
        case .otherStore: self = .refuse(reason: "the stream is of another store, \(known.store)")
        }
    }
}
