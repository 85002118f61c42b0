import HistoryDaemon
import HistoryMirrors
import Logging
import PersistentHistory

/// Applies a stream's messages to the mirror, and checks the stream while none comes.
extension Follower {
    /// - Returns: Why a snapshot is needed; nil after the last wanted message.
    func follow(
        _ consumer: PullConsumer, _ sight: inout StreamSight, _ jetStream: JetStream, into mirror: Mirror,
        until end: UInt64?, _ succeeded: () -> Void
    ) throws -> Need? {
        var assembler = GroupAssembler(position: mirror.position)
        let folder = following.folder
        var body = GroupBody(spoolingIn: folder)
        var space = 0
        var before: (sequence: UInt64, id: String)?
        var last: GroupHeader?
        while true {
            guard let message = try consumer.nextInTime() else {
                if let need = try look(&sight, mirror, jetStream) { return need }
                continue
            }
            sight.seen = message.sequence
            switch message.content.checked(message, behind: before) {
            case .failure(let reason):
                note([
                    ForeignNote(
                        stream: names.history, sequence: message.sequence, subject: message.subject,
                        reason: reason)
                ])
            case .success(let header):
                guard mirror.isThere else {
                    throw SessionOver(description: "the mirror was removed or replaced")
                }
                last = header
                let step = assembler.take(header, session: GroupHeader.session(of: message.messageID))
                switch step {
                case .ignore: break
                case .needSnapshot(let reason): return Need(reason: reason, isGap: true)
                case .keep, .apply:
                    if header.part == 0 {
                        body = GroupBody(spoolingIn: folder)
                        space = header.isLast ? .max : FreeSpace.half(of: folder)
                    }
                    try message.withBody { try body.append($0) }
                    guard body.count <= GroupLimit.most else {
                        return refuse(message, "a group is larger than \(GroupLimit.most) bytes")
                    }
                    // Refilling the mirror would free no space: the follower waits at this group, and the
                    // status says why.
                    guard body.count <= space else { throw FreeSpace.Lack(needed: body.count, folder: folder) }
                    guard step == .apply else { break }
                    let position = MirrorPosition(
                        store: header.store, epoch: header.epoch, position: header.through,
                        sequence: message.sequence, messageID: message.messageID)
                    do {
                        try mirror.apply(unlessStopped(body.chunks()), isSnapshot: false, to: position)
                    } catch let error as MirrorError {
                        return refuse(message, "\(error)")
                    } catch let error as HistoryError
                        where error.code == .replicaUnwritable && FreeSpace.half(of: folder) < Self.nearlyFull
                    {
                        logger.debug("\(error)")
                        throw FreeSpace.Lack(needed: 2 * body.count + Self.nearlyFull, folder: folder)
                    }
                    assembler.position = position
                    status.moved(position, bytes: body.count)
                    body = GroupBody(spoolingIn: folder)
                    succeeded()
                }
            }
            before = (message.sequence, message.messageID)
            let isLevel = message.pending == 0
            note(isLevel: isLevel, mirror, last)
            if let last {
                let hasAll = last.reached.number <= mirror.position?.position.number ?? 0
                status.heard(last, isLevel: isLevel && hasAll)
            }
            if let end, message.sequence >= end { return nil }
        }
    }

    private func refuse(_ message: PullConsumer.Delivered, _ reason: String) -> Need {
        logger.report(
            .mirrorGroupRefused, "\(names.history), message \(message.sequence): \(reason)", metadata: metadata)
        status.refused()
        return Need(reason: "a group could not be applied (\(reason))", isRepair: true)
    }

    /// Stops within a huge group, too: its transaction is rolled back.
    func unlessStopped(_ chunks: @escaping () throws -> [UInt8]?) -> () throws -> [UInt8]? {
        {
            guard !wakeUp.isStopped else { throw SessionOver(description: "the program stops") }
            return try chunks()
        }
    }

    /// Checks the stream while no message arrives: one request to the server, and more if the answer is
    /// unexpected.
    private func look(_ sight: inout StreamSight, _ mirror: Mirror, _ jetStream: JetStream) throws -> Need? {
        guard mirror.isThere else { throw SessionOver(description: "the mirror was removed or replaced") }
        switch sight.look(try jetStream.state(of: names.history), at: .now) {
        case .asBefore: break
        case .again: return nil
        case .compare: if let need = try compare(mirror, jetStream) { return need }
        case .over(let reason): throw SessionOver(description: "\(names.history) \(reason)")
        }
        status.compared()
        return nil
    }

    /// Compares a mirror with its stream while no message arrives.
    private func compare(_ mirror: Mirror, _ jetStream: JetStream) throws -> Need? {
        let end = try StreamEnd(names, jetStream)
        switch decision(mirror.position, end) {
        case .refuse(let reason): throw Stale(description: reason)
        case .refill(let reason), .awaitSnapshot(let reason): return Need(reason: reason)
        case .goOn:
            if let last = end.last, last.epoch == mirror.position?.epoch,
                last.reached.number > mirror.position?.position.number ?? 0
            {
                throw SessionOver(description: "the stream's end, \(last.reached.number), was not delivered")
            }
            return nil
        }
    }
}

extension Result<GroupHeader, ForeignMessage> {
    /// A message that is not chained to the one before it is foreign.
    fileprivate func checked(
        _ message: PullConsumer.Delivered, behind before: (sequence: UInt64, id: String)?
    ) -> Self {
        guard case .success(let header) = self else { return self }
        let id = before.flatMap { $0.sequence + 1 == message.sequence ? $0.id : nil }
        return header.fits(message.messageID, behind: id) ? self : .failure(.unchained)
    }
}
