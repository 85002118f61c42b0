package import HistoryMirrors

/// How a publisher continues, given what is known of the stream and the store's relation to it.
package enum PublishDecision: Hashable, Sendable {
    /// The store continues where the stream ends.
    case goOn(epoch: Int64, after: StreamPosition)
    /// Followers need a snapshot, after which the stream continues.
    case startOver(epoch: Int64, reason: String)
    /// An operator must decide.
    case refuse(reason: String)
    /// The stream has another source.
    case retire(reason: String)

    /// What is known of the stream.
    package struct Known: Sendable {
        /// The stream's last message.
        package var last: GroupHeader?
        /// The head of the newest snapshot.
        package var head: GroupHeader?
        package var memory: PublisherMemory?

        package init(last: GroupHeader?, head: GroupHeader?, memory: PublisherMemory?) {
            self.last = last
            self.head = head
            self.memory = memory
        }

        /// The latest epoch of all.
        var epoch: Int64? { [last?.epoch, head?.epoch, memory?.epoch].compactMap(\.self).max() }
    }

    /// - Parameters:
    ///   - source: What is to be published.
    ///   - now: In milliseconds since 1970.
    ///   - wantsNewEpoch: Whether an operator has decided that the store is right and the stream is not.
    ///   - loss: The store's relation to a position.
    package init(
        _ known: Known, of source: GroupHeader.Source = .init(), at now: Int64, wantsNewEpoch: Bool = false,
        loss: (StreamPosition, _ store: String) throws -> SourceLoss?
    ) rethrows {
        let next = Epoch.next(after: known.epoch, at: now)
        if wantsNewEpoch {
            self = .startOver(epoch: next, reason: "a new epoch was asked for")
            return
        }
        if let reason = Self.retirement(of: source, [known.last, known.head]) {
            self = .retire(reason: reason)
            return
        }
        let memory = known.memory
        let lossOfMemory = try memory.flatMap { try loss($0.position, $0.store) }
        guard let end = known.last ?? known.head else {
            switch lossOfMemory {
            case .otherStore, .diverged: self = Self.refuse(lossOfMemory, memory?.position, memory?.store)
            case nil where memory == nil: self = .startOver(epoch: next, reason: "the stream is new")
            default: self = .startOver(epoch: next, reason: "the stream was lost")
            }
            return
        }
        let reached = end.reached
        // The epoch of the promotion itself is only the fence behind which the store begins.
        if let promotion = source.promotion, end.epoch <= promotion, try loss(reached, end.store) != .otherStore
        {
            self = .startOver(epoch: max(next, promotion + 1), reason: "the store was promoted from a mirror")
            return
        }
        switch try loss(reached, end.store) {
        case .restored: self = .startOver(epoch: next, reason: "the store was restored from a backup")
        case .diverged: self = Self.refuse(.diverged, reached, end.store)
        case .otherStore: self = Self.refuse(.otherStore, reached, end.store)
        case let loss:
            // The server was restored, or a publisher ended before its new epoch started.
            guard let epoch = known.epoch, epoch == end.epoch else {
                self = .startOver(epoch: next, reason: "the stream ends in an epoch that is over, \(end.epoch)")
                return
            }
            // Both the stream and the store were restored to an older state.
            switch memory?.epoch == epoch && memory?.store == end.store ? lossOfMemory : nil {
            case .restored:
                self = .startOver(epoch: next, reason: "the store was restored from a backup")
                return
            case .diverged:
                self = Self.refuse(.diverged, memory?.position, end.store)
                return
            default: break
            }
            // Mirrors have tables that are not published any more, or lack rows of new ones.
            guard end.source.entities == source.entities else {
                self = .startOver(epoch: next, reason: "the configuration names other entities")
                return
            }
            switch loss {
            case .expired:
                self = .startOver(epoch: epoch, reason: "the history behind the stream's end was deleted")
            case .gap:
                self = .startOver(epoch: epoch, reason: "changes are missing in the store's history")
            case .schemaUnknown: self = .startOver(epoch: epoch, reason: "the schema has changed")
            default:
                self =
                    known.last == nil
                    ? .startOver(epoch: epoch, reason: "the stream has no messages left")
                    : .goOn(epoch: epoch, after: reached)
            }
        }
    }

    /// Why a store is not the source of a stream any more; nil if it is, or may be. Only an operator changes the
    /// source.
    ///
    /// - Parameter headers: The newest ones of the stream.
    package static func retirement(of source: GroupHeader.Source, _ headers: [GroupHeader?]) -> String? {
        guard let newest = headers.compactMap(\.self).max(by: { $0.epoch < $1.epoch }),
            newest.source.promotion != source.promotion, newest.epoch >= source.promotion ?? 0
        else { return nil }
        let who = newest.source.promotion == nil ? "another store" : "a promoted mirror"
        return
            "the store is not the source of the stream any more: \(who) is, in epoch \(newest.epoch), and has what was written since"
    }

    private static func refuse(_ loss: SourceLoss?, _ position: StreamPosition?, _ store: String?) -> Self {
        loss == .otherStore
            ? .refuse(reason: "the stream is of another store, \(store ?? "unknown")")
            : .refuse(
                reason: "at \(position?.number ?? 0) the store has another transaction than the stream")
    }
}
