internal import DequeModule

/// What one program is sent by its feed, a piece at a time: it asks for the next piece when it has sent
/// the last, and when there may be more.
///
/// It holds no more than one portion of the history, and is no further ahead of the program than the
/// feed's window. All that lasts lies in the state database.
struct FeedStream {
    /// Lines that are sent together have about so many bytes.
    private static let pieceSize = 64 << 10

    private let feed: FeedID
    /// Nil until it has started.
    private var store: StoreID?
    /// The loss of which the program was notified, and which it has not acknowledged yet.
    private var told: Expiry?
    private var window = FeedWindow(size: 1)
    /// The last token of what was returned: all up to it may be acknowledged. A transaction that is sent in
    /// parts counts from its last part on.
    private(set) var sent: HistoryToken?
    /// How far was read.
    private var end: Int64 = 0
    /// Read, and not sent.
    private var portion: Deque<HistoryTransaction> = []
    /// A transaction that is sent in parts.
    private var partial: Partial?
    private var entities: Set<String>?

    private struct Partial {
        let transaction: HistoryTransaction
        let objects: [ObjectIDNotification.Object]
        var sent = 0
    }

    init(_ feed: FeedID) { self.feed = feed }

    enum Step {
        /// Whole lines, to be sent.
        case lines([UInt8])
        /// There may be more.
        case again
        /// There is nothing to send for now.
        case rest
    }

    /// - Returns: Whole lines; nil if there are none for now.
    /// - Throws: `HistoryError`, also if the store is not open to begin with.
    mutating func next(_ control: StoreControl) async throws -> [UInt8]? {
        var failures = 0
        while !Task.isCancelled {
            do {
                // One step at a time: the session cannot end while a step uses it.
                let taken = try await control.withSession { session in
                    try await step(session.feeds, session.opened.fetcher)
                }
                switch taken {
                case .lines(let bytes): return bytes
                case .again: continue
                case .rest: return nil
                }
            } catch let error as HistoryError where error.code == .storeNotOpen && store != nil {
                // It is rung for when it is.
                return nil
            } catch let error as HistoryError where error.code == .tokenAhead {
                // The store was restored, and the consumer is about to start over; its feeds with it.
                return nil
            } catch let error as HistoryError where error.code == .storeBusy {
                failures += 1
                try await Task.sleep(for: Backoff.delay(afterFailures: failures), clock: .loop)
            }
        }
        return nil
    }

    mutating func step(_ keeper: FeedKeeper, _ fetcher: SharedFetcher) async throws -> Step {
        let (consumer, context) = try keeper.context(of: feed)
        var place = try keeper.place(of: feed)
        guard let store else {
            if try keeper.hasExpired(place) { place = try keeper.expire(feed) }
            return .lines(begin(place, keeper.reader.storeID))
        }
        guard store == keeper.reader.storeID else {
            throw HistoryError(
                .tokenForeign, "The store was replaced by another, \(keeper.reader.storeID).",
                hint: "Reconnect.")
        }
        if place.expiry != nil, place.expiry != told { return .lines(begin(place, store)) }
        told = place.expiry
        window.size = context.window
        window.acknowledge(through: place.position)
        entities = context.entities
        if partial != nil { return .lines(lines()) }
        // The program may skip what it was not given yet.
        end = max(end, place.position)
        while let next = portion.first, next.token.number <= place.position { portion.removeFirst() }
        guard window.hasRoom else { return .rest }
        if !portion.isEmpty { return .lines(lines()) }
        do {
            guard let next = try await keeper.next(for: context, of: consumer, after: end, by: fetcher) else {
                return .rest
            }
            portion = Deque(next.transactions)
            end = next.end
            return .again
        } catch let error as HistoryError where error.code == .tokenExpired {
            return .lines(begin(try keeper.expire(feed), store))
        }
    }

    private mutating func begin(_ place: FeedState, _ store: StoreID) -> [UInt8] {
        self.store = store
        told = place.expiry
        end = place.position
        portion = []
        partial = nil
        window = FeedWindow(size: 1)
        sent = HistoryToken(store: store, number: place.position)
        var json = JSONBytes()
        if let expiry = place.expiry {
            FeedLine.expired(expiry, to: &json)
        } else {
            FeedLine.begins(after: HistoryToken(store: store, number: place.position), to: &json)
        }
        return json.bytes.array
    }

    /// As many transactions as there are and fit; of one that is too large for a line, a part.
    private mutating func lines() -> [UInt8] {
        var json = JSONBytes()
        if partial != nil {
            writePart(to: &json)
            return json.bytes.array
        }
        while window.hasRoom, json.count < Self.pieceSize, let transaction = portion.popFirst() {
            let objects = ObjectIDNotification(transaction, entities: entities).objects
            window.send(transaction.token.number)
            if let recreation = Expiry(transaction) {
                FeedLine.expired(recreation, to: &json)
                sent = transaction.token
                continue
            }
            if objects.count > FeedLine.mostObjects {
                partial = Partial(transaction: transaction, objects: objects)
                if json.count == 0 { writePart(to: &json) }
                break
            }
            FeedLine.transaction(transaction, objects, to: &json)
            sent = transaction.token
        }
        return json.bytes.array
    }

    private mutating func writePart(to json: inout JSONBytes) {
        guard var part = partial else { return }
        let start = part.sent
        part.sent = min(start + FeedLine.mostObjects, part.objects.count)
        let isLast = part.sent == part.objects.count
        FeedLine.transaction(
            part.transaction, part.objects[start..<part.sent],
            part: FeedLine.Part(index: start / FeedLine.mostObjects, isLast: isLast), to: &json)
        partial = isLast ? nil : part
        if isLast { sent = part.transaction.token }
    }
}
