import HistoryMirrors
import PersistentHistory

/// The parts of a snapshot, in order, even while it is being published: the head is a snapshot's last message.
final class SnapshotParts {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The publisher did not complete the snapshot.
    struct Interrupted: Error {}

    /// The parts arrive so slowly that the mirror would be locked for too long.
    struct TooSlow: Error {}

    let download: SnapshotDownload
    /// The message that arrived instead of the rest of the snapshot.
    private(set) var next: PullConsumer.Delivered?
    private let consumer: PullConsumer
    /// How many bytes of the body were returned.
    private var given = 0
    /// How many bytes arrived in this session.
    private var bytes = 0
    /// The time spent only on waiting for them.
    private var waited: Duration = .zero
    /// How long no part has arrived.
    private var silence: Duration = .zero
    private let limit: Int

    private static let longestSilence: Duration = .seconds(60)
    private static let longestSilenceWithoutHead: Duration = .seconds(15)

    /// - Parameters:
    ///   - consumer: Delivers next the first part that the download lacks.
    ///   - limit: The maximum number of bytes.
    init(_ download: SnapshotDownload, _ consumer: PullConsumer, atMost limit: Int) {
        self.limit = limit
        self.download = download
        self.consumer = consumer
    }

    /// Makes `body` start over.
    func rewind() { given = 0 }

    /// The next bytes of the body. After `TooSlow`, fetch everything before applying it.
    ///
    /// - Returns: Nil once all parts were received and are valid.
    /// - Throws: `Failure` if they are not, `Interrupted`, `TooSlow`, `NATSError`.
    func body() throws -> [UInt8]? {
        while given >= download.body.count {
            if download.isComplete {
                guard download.isRight else {
                    throw Failure(description: "\(download.name) is damaged: its digest is another one")
                }
                return nil
            }
            guard SnapshotPace.isEnough(bytes, in: waited) else { throw TooSlow() }
            try fetch()
        }
        let chunk = try download.body.bytes(at: given, atMost: 1 << 20)
        given += chunk.count
        return chunk
    }

    /// Fetches everything, however long that takes.
    func fetchAll() throws { while !download.isComplete { try fetch() } }

    /// Fetches for long enough to measure the pace.
    func fetchSome() throws {
        while !download.isComplete, bytes < SnapshotPace.sample, waited < SnapshotPace.timeOfSample {
            try fetch()
        }
    }

    /// Whether the parts arrive fast enough to be applied while they arrive.
    var isFast: Bool { download.isComplete || SnapshotPace.isFast(bytes, in: waited) }

    /// Waits for one message.
    private func fetch() throws {
        let start = ContinuousClock.now
        let came = try consumer.nextInTime()
        let time = ContinuousClock.now - start
        waited += time
        guard let message = came else {
            silence += time
            if download.head == nil, silence >= Self.longestSilenceWithoutHead { throw Interrupted() }
            guard silence < Self.longestSilence else {
                throw Failure(description: "\(download.name) does not come any more")
            }
            return
        }
        silence = .zero
        let count = download.count
        if let found = message.header, found.kind == .snapshot, found.part == count,
            message.sequence == download.first + UInt64(count)
        {
            try message.withBody { body in
                guard download.body.count + body.count <= download.head?.bytes ?? limit else {
                    throw Failure(description: "\(download.name) is larger than it may be")
                }
                try download.append(body)
                bytes += body.count
            }
            return
        }
        guard download.head == nil else { throw Failure(description: "\(download.name) is not whole any more") }
        guard let end = message.header, end.kind == .head, end.head?.parts == count, download.complete(end)
        else {
            next = message
            throw Interrupted()
        }
    }
}
