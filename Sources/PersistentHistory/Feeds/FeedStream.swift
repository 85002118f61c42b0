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
    /// Nil until it has begun.
    private var store: StoreID?
    /// The loss that the program was told of, and has not acknowledged yet.
    private var told: Expiry?
    private var window = FeedWindow(size: 1)
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

    private enum Look {
        /// To be sent first.
        case line(JSONBytes)
        /// There are transactions to send.
        case transactions
        /// Read on.
        case again
        /// There is nothing to send for now.
        case rest
    }

    /// - Returns: Whole lines; nil where there are none for now.
    /// - Throws: `HistoryError`, also where the store is not open to begin with.
    mutating func next(_ control: StoreControl) async throws -> [UInt8]? {
        var failures = 0
        while !Task.isCancelled {
            do {
                switch try await look(control) {
                case .line(let json): return json.bytes
                case .transactions: return lines()
                case .again: continue
                case .rest: return nil
                }
            } catch let error as HistoryError where error.code == .storeNotOpen && store != nil {
                // It is rung for when it is.
                return nil
            } catch let error as HistoryError where error.code == .tokenAhead {
                // The store was restored, and the consumer is about to begin anew; its feeds with it.
                return nil
            } catch let error as HistoryError where error.code == .storeBusy {
                failures += 1
                try await Task.sleep(for: Backoff.delay(afterFailures: failures))
            }
        }
        return nil
    }

    private mutating func look(_ control: StoreControl) async throws -> Look {
        try await control.withSession { session in try await look(session.feeds, session.fetcher) }
    }

    private mutating func look(_ keeper: FeedKeeper, _ fetcher: SharedFetcher) async throws -> Look {
        let (consumer, context) = try keeper.context(of: feed)
        var place = try keeper.place(of: feed)
        guard let store else {
            if try keeper.hasExpired(place) { place = try keeper.expire(feed) }
            return .line(begin(place, keeper.reader.storeID))
        }
        guard store == keeper.reader.storeID else {
            throw HistoryError(
                .tokenForeign, "The store was replaced by another, \(keeper.reader.storeID).",
                hint: "Connect anew.")
        }
        if place.expiry != nil, place.expiry != told { return .line(begin(place, store)) }
        told = place.expiry
        window.size = context.window
        window.acknowledge(through: place.number)
        entities = context.entities
        if partial != nil { return .transactions }
        // The program may skip what it was not given yet.
        end = max(end, place.number)
        while let next = portion.first, next.token.number <= place.number { portion.removeFirst() }
        guard window.hasRoom else { return .rest }
        if !portion.isEmpty { return .transactions }
        do {
            guard let next = try await keeper.next(for: context, of: consumer, after: end, by: fetcher) else {
                return .rest
            }
            portion = Deque(next.transactions)
            end = next.end
            return .again
        } catch let error as HistoryError where error.code == .tokenExpired {
            return .line(begin(try keeper.expire(feed), store))
        }
    }

    private mutating func begin(_ place: FeedPlace, _ store: StoreID) -> JSONBytes {
        self.store = store
        told = place.expiry
        end = place.number
        portion = []
        partial = nil
        window = FeedWindow(size: 1)
        var json = JSONBytes()
        if let expiry = place.expiry {
            FeedLine.expired(expiry, to: &json)
        } else {
            FeedLine.begins(after: HistoryToken(store: store, number: place.number), to: &json)
        }
        return json
    }

    /// As many transactions as there are and fit; of one that is too large for a line, a part.
    private mutating func lines() -> [UInt8] {
        var json = JSONBytes()
        if partial != nil {
            writePart(to: &json)
            return json.bytes
        }
        while window.hasRoom, json.count < Self.pieceSize, let transaction = portion.popFirst() {
            let objects = ObjectIDNotification(transaction, entities: entities).objects
            window.send(transaction.token.number)
            if objects.count > FeedLine.mostObjects {
                partial = Partial(transaction: transaction, objects: objects)
                if json.count == 0 { writePart(to: &json) }
                break
            }
            FeedLine.transaction(transaction, objects, to: &json)
        }
        return json.bytes
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
    }
}
