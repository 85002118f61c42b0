import CSimulation
import HistoryControl
import PersistentHistory

/// A program that is connected to a feed, acknowledges what it gets, goes now and then, and comes again.
struct FeedReader: Sendable {
    let requests: Operator
    let store: String
    let consumer: String

    private var feed: FeedRequest { FeedRequest(store: store, consumer: consumer, context: "feed") }
    private var record: Record { requests.truth.record }

    func start() {
        let status = startThread {
            csimulation_be_world()
            while true {
                read(until: csimulation_now() + Int64(csimulation_random() % 20_000_000_000))
                csimulation_sleep(Int64(csimulation_random() % 500_000_000))
            }
        }
        assert(status == 0)
    }

    private func read(until end: Int64) {
        var unread: [UInt8] = []
        var isOpen = false
        _ = Request(command: .feed(feed), path: requests.files.control).perform(until: end) { bytes in
            if !isOpen { record.write("feed opened", store, consumer) }
            isOpen = true
            unread += bytes
            guard let lineEnd = unread.lastIndex(of: UInt8(ascii: "\n")) else { return true }
            let lines = Array(unread[...lineEnd])
            unread.removeSubrange(...lineEnd)
            let losses = Tokens.all(in: lines, "after")
            for loss in losses {
                record.write("fed loss", store, consumer, "\(loss.number)")
                requests.truth.deliveries.skip(store, consumer, "feed", through: loss.number)
                requests.send(.acknowledge(feed, token: loss.description))
            }
            let tokens = Tokens.all(in: lines)
            for token in tokens {
                record.write("fed", store, consumer, "\(token.number)")
                requests.truth.deliveries.add(store, consumer, "feed", token.number)
            }
            guard let last = tokens.last else { return true }
            csimulation_sleep(Int64(csimulation_random() % 3_000_000))
            requests.send(.acknowledge(feed, token: last.description))
            return csimulation_now() < end
        }
        if isOpen { record.write("feed closed", store, consumer) }
    }
}
