package import HistoryMirrors

/// Finds a mirror's position in a stream by the content of the messages.
///
/// A sequence alone is not reliable: after a server was restored to an older state, it is assigned again.
package enum StreamSearch {
    /// Searches a range for the first sequence after the mirror's position. Returns the sequence after the
    /// range if the mirror has all of it.
    ///
    /// Without foreign messages, all messages from the result on are after the mirror's position. Parts of
    /// unfinished groups may precede it; they are ignored, so the search may end at any of them.
    package static func start(
        in range: ClosedRange<UInt64>, for mirror: MirrorPosition, header: (UInt64) throws -> GroupHeader?
    ) rethrows -> UInt64 {
        var (low, high) = (range.lowerBound, range.upperBound + 1)
        while low < high {
            let middle = low + (high - low) / 2
            // New messages may follow a foreign one. Reading some in vain does no harm.
            let isNew = try header(middle).map { Self.isNew($0, mirror) } ?? true
            if isNew { high = middle } else { low = middle + 1 }
        }
        return low
    }

    private static func isNew(_ header: GroupHeader, _ mirror: MirrorPosition) -> Bool {
        if header.epoch != mirror.epoch { return header.epoch > mirror.epoch }
        guard header.store == mirror.store else { return true }
        return header.through.number > mirror.position.number
    }

    /// The stream sequence in the reply subject of a delivered message, and the number of messages after it:
    /// `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<of the consumer>.<time>.<pending>`. Newer servers
    /// insert the domain and the account before the stream.
    package static func sequence(inReply reply: String) -> (UInt64, pending: UInt64)? {
        guard reply.hasPrefix("$JS.ACK.") else { return nil }
        let tokens = reply.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard tokens.count >= 9 else { return nil }
        let first = tokens.count == 9 ? 5 : 7
        guard tokens.count > first + 3, let sequence = UInt64(Substring(tokens[first])),
            let pending = UInt64(Substring(tokens[first + 3]))
        else { return nil }
        return (sequence, pending)
    }
}
