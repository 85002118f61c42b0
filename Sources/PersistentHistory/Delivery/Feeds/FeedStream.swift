internal import DequeModule

/// What a feed sends to its program, a piece at a time. The caller requests the next piece when it has
/// sent the last one, and when there may be more.
///
/// It holds at most one portion of the history, and is never further ahead of the program than the feed's
/// window. Everything lasting is in the state database.
struct FeedStream {
    /// The approximate number of bytes that are sent together.
    private static let pieceSize = 64 << 10

    private let feed: FeedID
    /// Nil until it has started.
    private var store: StoreID?
    /// The loss that the program was notified of and has not acknowledged yet.
    private var sentExpiry: Expiry?
    private var window = FeedWindow(size: 1)
    /// The last returned token: everything up to it may be acknowledged. A transaction that is sent in
    /// parts counts once its last part is returned.
    private(set) var sent: HistoryToken?
    /// How far the history was read.
    private var end: Int64 = 0
    /// Transactions that were read and not sent.
    private var portion: Deque<HistoryTransaction> = []
    /// The rows of their objects, if the feed has them.
    private var values: RowValues?
    /// A large transaction that is sent in parts.
    private var partial: Partial?
    private var filter = ChangeFilter()
    private var wantedValues: WantedValues?
    private var wantedRows: WantedValues?
    private var largeIntegers = LargeIntegers.number

    private struct Partial {
        let transaction: HistoryTransaction
        let effects: NetEffects
        var index = 0
        /// How far its objects were sent.
        var position: Int64 = 0
        var sent = 0
    }

    init(_ feed: FeedID) { self.feed = feed }

    enum Step {
        /// Whole lines, to be sent.
        case lines([UInt8])
        /// There may be more.
        case again
        /// There is nothing to send for now.
        case idle
    }

    /// - Returns: Whole lines; nil if there are none for now.
    /// - Throws: `HistoryError`, also if the store is not open at first.
    mutating func next(_ control: StoreControl) async throws -> [UInt8]? {
        var pause = GrowingPause()
        while !Task.isCancelled {
            do {
                // One step at a time: the session cannot end while a step uses it.
                let taken = try await control.withSession { session in
                    try await step(session.feeds, session.opened.fetcher)
                }
                switch taken {
                case .lines(let bytes): return bytes
                case .again: continue
                case .idle: return nil
                }
            } catch let error as HistoryError where error.code == .storeNotOpen && store != nil {
                // The signal is notified when the store opens.
                return nil
            } catch let error as HistoryError where error.code == .tokenAhead {
                // The store was restored. The consumer is about to start over, and its feeds with it.
                return nil
            } catch let error as HistoryError where error.code == .storeBusy {
                try await Task.sleep(for: pause.next(), clock: .loop)
            }
        }
        return nil
    }

    mutating func step(_ keeper: FeedKeeper, _ fetcher: SharedFetcher) async throws -> Step {
        let (consumer, context) = try keeper.context(of: feed)
        var state = try keeper.state(of: feed)
        guard let store else {
            if try keeper.hasExpired(state) { state = try keeper.expire(feed) }
            return .lines(begin(state, keeper.source.storeID))
        }
        guard store == keeper.source.storeID else {
            throw HistoryError(
                .tokenForeign, "The store was replaced by another, \(keeper.source.storeID).",
                hint: "Reconnect.")
        }
        if state.expiry != nil, state.expiry != sentExpiry { return .lines(begin(state, store)) }
        sentExpiry = state.expiry
        window.size = context.window
        window.acknowledge(through: state.position)
        (filter, wantedValues, wantedRows) = (context.filter, context.wantedValues, context.wantedRows)
        largeIntegers = context.largeIntegers
        do {
            if partial != nil { return .lines(try await nextPart()) }
            return try await nextTransactions(keeper, fetcher, state, context, of: consumer)
        } catch let error as HistoryError where error.code == .tokenExpired {
            return .lines(begin(try keeper.expire(feed), store))
        }
    }

    private mutating func nextTransactions(
        _ keeper: FeedKeeper, _ fetcher: SharedFetcher, _ state: FeedState, _ context: FeedContext,
        of consumer: Consumer
    ) async throws -> Step {
        // The program may skip what it has not received yet.
        end = max(end, state.position)
        while let next = portion.first, next.token.number <= state.position { portion.removeFirst() }
        guard window.hasRoom else { return .idle }
        if let large = portion.first, large.outline != nil {
            let (filter, source) = (context.filter, keeper.source)
            let effects = try await onPool { try NetEffects(of: large, filter, reading: source) }
            portion.removeFirst()
            window.send(large.number)
            partial = Partial(transaction: large, effects: effects)
            return .lines(try await nextPart())
        }
        if !portion.isEmpty { return .lines(lines()) }
        guard let next = try keeper.next(for: context, of: consumer, after: end, sharing: fetcher) else {
            return .idle
        }
        portion = Deque(next.transactions)
        values = next.values
        end = next.end
        return .again
    }

    private mutating func begin(_ state: FeedState, _ store: StoreID) -> [UInt8] {
        self.store = store
        sentExpiry = state.expiry
        end = state.position
        portion = []
        values = nil
        partial = nil
        window = FeedWindow(size: 1)
        sent = HistoryToken(store: store, number: state.position)
        var json = JSONBytes()
        if let expiry = state.expiry {
            FeedLineWriter.expired(expiry, to: &json)
        } else {
            FeedLineWriter.begins(after: HistoryToken(store: store, number: state.position), to: &json)
        }
        return json.bytes.array
    }

    /// As many available transactions as fit.
    private mutating func lines() -> [UInt8] {
        var json = JSONBytes()
        while window.hasRoom, json.count < Self.pieceSize, let transaction = portion.first,
            transaction.outline == nil
        {
            portion.removeFirst()
            window.send(transaction.token.number)
            sent = transaction.token
            if let recreation = Expiry(transaction) {
                FeedLineWriter.expired(recreation, to: &json)
            } else {
                let objects = ObjectIDNotification(transaction, filter, values).objects
                FeedLineWriter.transaction(
                    transaction, objects, values: CallValues(values, wantedValues?.maximumBytes),
                    largeIntegers: largeIntegers, to: &json)
            }
        }
        return json.bytes.array
    }

    /// The next line of a large transaction.
    private mutating func nextPart() async throws -> [UInt8] {
        guard var part = partial else { return [] }
        let effects = part.effects
        let position = part.position
        let wanted = wantedRows
        let portion = try await onPool { try effects.portion(after: position, values: wanted) }
        part.position = portion.end
        part.sent += portion.count
        let isLast = part.sent >= effects.count || portion.count == 0
        let number = isLast && part.index == 0 ? nil : CallPart(index: part.index, isLast: isLast)
        var json = JSONBytes()
        FeedLineWriter.transaction(
            part.transaction, portion.objects, part: number,
            values: CallValues(portion.values, wantedValues?.maximumBytes), largeIntegers: largeIntegers,
            to: &json)
        part.index += 1
        partial = isLast ? nil : part
        if isLast { sent = part.transaction.token }
        return json.bytes.array
    }
}

/// How far a feed may be ahead of its program, as a number of sent and unacknowledged transactions.
struct FeedWindow: Sendable {
    var size: Int
    private var sent: Deque<Int64> = []

    init(size: Int) { self.size = size }

    var hasRoom: Bool { sent.count < size }
    /// The number of sent and unacknowledged transactions.
    var count: Int { sent.count }

    mutating func send(_ number: Int64) { sent.append(number) }

    /// Everything up to a position is acknowledged, sent or not.
    mutating func acknowledge(through number: Int64) {
        while let first = sent.first, first <= number { sent.removeFirst() }
    }
}
