package import HistoryMirrors
import PersistentHistory

/// The number of a line of history in a stream. It increases when the stream does not continue its earlier
/// content.
///
/// A new epoch is a time, in milliseconds since 1970, so that it also follows epochs that only a mirror still
/// knows.
package enum Epoch {
    /// The epoch after all known ones.
    package static func next(after known: Int64?, at now: Int64) -> Int64 {
        // The known epoch is within `range`, which was checked when it was read.
        max((known ?? 0) + 1, now)
    }

    /// The epochs that a message may have. One later than any clock would leave no room for the next.
    package static func range(at now: Int64) -> ClosedRange<Int64> { 1...max(1, now) + century }

    private static let century: Int64 = 100 * 366 * 86_400_000
}

/// What a publisher remembers of its stream, in its own state folder: it survives a restored server or store.
///
/// Publishing never continues from here, but from the end of the stream.
package struct PublisherMemory: Codable, Hashable, Sendable {
    package var store: String
    package var epoch: Int64
    /// A position that the stream had in this epoch.
    package var position: StreamPosition

    package init(store: String, epoch: Int64, position: StreamPosition) {
        self.store = store
        self.epoch = epoch
        self.position = position
    }

    private enum CodingKeys: String, CodingKey { case store, epoch, position }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        store = try container.decode(String.self, forKey: .store)
        epoch = try container.decode(Int64.self, forKey: .epoch)
        guard let position = StreamPosition(try container.decode(String.self, forKey: .position)),
            Epoch.range(at: HistoryTimestamp.now.milliseconds).contains(epoch)
        else {
            throw DecodingError.dataCorruptedError(
                forKey: .position, in: container, debugDescription: "no position, or no epoch")
        }
        self.position = position
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(store, forKey: .store)
        try container.encode(epoch, forKey: .epoch)
        try container.encode(position.text, forKey: .position)
    }
}
