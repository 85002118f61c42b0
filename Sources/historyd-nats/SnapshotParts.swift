import HistoryNATS
import PersistentHistory

/// The parts of a snapshot, in their order, also while they are published: the head is the last message of a snapshot.
final class SnapshotParts {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The publisher did not complete the snapshot.
    struct Interrupted: Error {}

    /// Of the snapshot's beginning or head.
    let header: GroupHeader
    /// What came instead of the rest of the snapshot.
    private(set) var next: PullConsumer.Delivered?
    private var head: GroupHeader.SnapshotHead?
    private let first: UInt64
    private let consumer: PullConsumer
    private let digest = SnapshotDigest()
    private var count = 0
    private var bytes = 0
    /// How many parts had come when the last request was over.
    private var countInTime = 0
    /// For the next part.
    private var waited: Duration = .zero
    private let limit: Int

    /// - Parameters:
    ///   - first: The sequence of the first part, which the consumer gives next.
    ///   - limit: How many bytes there may be.
    init(_ header: GroupHeader, from first: UInt64, _ consumer: PullConsumer, atMost limit: Int) {
        self.limit = limit
        self.header = header
        self.first = first
        self.consumer = consumer
        head = header.head
    }

    private var name: String { "the snapshot at \(header.through.number)" }

    /// The body of the next part.
    ///
    /// - Returns: Nil when all of them have come and are right.
    /// - Throws: `Failure` if they are not, `Interrupted`, `NATSError`.
    func body() throws -> [UInt8]? {
        if let head, count >= head.parts {
            guard digest.matches(head) else {
                throw Failure(description: "\(name) is damaged: its digest is another one")
            }
            return nil
        }
        let start = ContinuousClock.now
        let came = try consumer.nextInTime()
        waited += .now - start
        guard SnapshotPace.isEnough(bytes, in: waited) else {
            guard head != nil else { throw Interrupted() }
            throw Failure(
                description: "\(name) comes too slowly: \(bytes) bytes in \(waited.components.seconds) s")
        }
        guard let message = came else {
            guard head != nil || count > countInTime else { throw Interrupted() }
            countInTime = count
            return try body()
        }
        if let found = message.header, found.kind == .snapshot, found.part == count,
            message.sequence == first + UInt64(count),
            case let body = message.withBody({ Array($0) }), bytes + body.count <= head?.bytes ?? limit
        {
            body.withUnsafeBytes { digest.update($0) }
            count += 1
            bytes += body.count
            return body
        }
        guard head == nil else { throw Failure(description: "\(name) is not whole any more") }
        guard let found = message.header, let end = found.head, end.firstSequence == first, end.parts == count,
            found.store == header.store, found.epoch == header.epoch, found.through == header.through
        else {
            next = message
            throw Interrupted()
        }
        head = end
        return try body()
    }
}
