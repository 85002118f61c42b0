package import PersistentHistory

/// Finds a mirror's place in a stream by what the messages say.
///
/// A sequence alone means nothing where a server was set back to an older state and was written to again.
package enum StreamSearch {
    /// The first sequence of a range whose message is not yet in the mirror; the one behind the range where all are.
    ///
    /// From the first message on that the mirror lacks, all are beyond its position; before it are none but parts of
    /// groups that were never finished, which are ignored wherever the search ends among them.
    package static func start(
        in range: ClosedRange<UInt64>, for mirror: MirrorPosition, header: (UInt64) throws -> GroupHeader?
    ) rethrows -> UInt64 {
        var (low, high) = (range.lowerBound, range.upperBound + 1)
        while low < high {
            let middle = low + (high - low) / 2
            // What is no message of ours is passed over.
            let isNew = try header(middle).map { Self.isNew($0, mirror) } ?? false
            if isNew { high = middle } else { low = middle + 1 }
        }
        return low
    }

    private static func isNew(_ header: GroupHeader, _ mirror: MirrorPosition) -> Bool {
        if header.epoch != mirror.epoch { return header.epoch > mirror.epoch }
        return header.through.number > mirror.position.number
    }

    /// The stream sequence in the reply subject of a delivered message: `$JS.ACK.<stream>.<consumer>.<deliveries>.
    /// <sequence>.…`, with the domain and the account before the stream in newer servers.
    package static func sequence(inReply reply: String) -> UInt64? {
        let tokens = reply.split(separator: ".", omittingEmptySubsequences: false)
        guard tokens.count >= 9, tokens[0] == "$JS", tokens[1] == "ACK" else { return nil }
        return UInt64(tokens[tokens.count == 9 ? 5 : 7])
    }
}
