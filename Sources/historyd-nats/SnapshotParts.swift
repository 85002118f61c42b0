import HistoryMirrors
import HistoryNATS
import PersistentHistory

/// The parts of a snapshot, in their order, also while they are published: the head is the last message of a snapshot.
final class SnapshotParts {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The publisher did not complete the snapshot.
    struct Interrupted: Error {}

    /// The parts come so slowly that the mirror is not to be locked for so long.
    struct TooSlow: Error {}

    let download: SnapshotDownload
    /// What came instead of the rest of the snapshot.
    private(set) var next: PullConsumer.Delivered?
    private let consumer: PullConsumer
    /// How many bytes of the body were given.
    private var given = 0
    /// What came in this session.
    private var bytes = 0
    /// In which nothing else was done than waiting for it.
    private var waited: Duration = .zero
    /// How long no part has come.
    private var silence: Duration = .zero
    private let limit: Int

    private static let longestSilence: Duration = .seconds(60)
    private static let longestSilenceWithoutHead: Duration = .seconds(15)

    /// - Parameters:
    ///   - consumer: Gives the part next that the download lacks.
    ///   - limit: How many bytes there may be.
    init(_ download: SnapshotDownload, _ consumer: PullConsumer, atMost limit: Int) {
        self.limit = limit
        self.download = download
        self.consumer = consumer
    }

    /// Begins to give the body from its start.
    func rewind() { given = 0 }

    /// The next bytes of the body. Comes after `TooSlow`, all of it has to be fetched before it is applied.
    ///
    /// - Returns: Nil when all parts have come and are right.
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

    /// Fetches all of it, however long that takes.
    func fetchAll() throws { while !download.isComplete { try fetch() } }

    /// Fetches for long enough to see how fast it comes.
    func fetchSome() throws {
        while !download.isComplete, bytes < SnapshotPace.sample, waited < SnapshotPace.timeOfSample {
            try fetch()
        }
    }

    /// Whether it comes fast enough to be applied while it comes.
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
