import ArgumentParser
import Glibc

/// The bare loop as a process: the daemon's baseline.
struct WatchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "The bare loop that the daemon is compared to.", shouldDisplay: false)

    @Argument var store: String

    @Flag(help: "Write requests for a plugin, not stamps.")
    var requests = false

    @Flag(help: "Read everything from the beginning, and end.")
    var all = false

    func run() throws {
        var line = RequestLine()
        let found = { (transactions: [BareReader.Transaction]) in
            if requests {
                try FileBytes.write(line.bytes(of: transactions), to: STDOUT_FILENO)
            } else if let last = transactions.last {
                Stamp(object: last.object, transactions: Int64(transactions.count), time: Clock.now).send(
                    to: STDOUT_FILENO)
            }
        }
        if all {
            let reader = try BareReader(store)
            while case let transactions = try reader.next(), !transactions.isEmpty { try found(transactions) }
        } else {
            let loop = try BareLoop(store)
            // Tells that from here on nothing is missed.
            try found([BareReader.Transaction(number: 0, object: 0)])
            try loop.run(found)
        }
    }
}

/// Requests of the size that the daemon's have, with as little work as can be.
private struct RequestLine {
    private var buffer: [UInt8] = []
    private var id: Int64 = 0

    mutating func bytes(of transactions: [BareReader.Transaction]) -> [UInt8] {
        buffer.removeAll(keepingCapacity: true)
        for transaction in transactions {
            id += 1
            buffer += #"{"jsonrpc":"2.0","id":"#.utf8
            buffer += String(id).utf8
            buffer += Self.start.utf8
            buffer += String(transaction.number).utf8
            buffer += Self.middle.utf8
            buffer += String(transaction.object).utf8
            buffer += Self.end.utf8
        }
        return buffer
    }

    private static let start =
        #","method":"observe","params":{"store":"store","consumer":"Reader","hook":"bench/items","#
        + #""hookID":"00000000-0000-0000-0000-000000000000","delivery":"00000000-0000-0000-0000-000000000000:1/Reader/bench/items/0","#
        + #""transaction":{"token":"00000000-0000-0000-0000-000000000000:"#
    private static let middle =
        #"","author":"Writer","context":null,"processID":1000,"timestamp":"2026-01-01T00:00:00.000Z"},"#
        + #""contexts":[{"entityName":"item","operation":"insert","objectID":{"id":"#
    private static let end =
        #"},"objectIDURL":"x-history://00000000-0000-0000-0000-000000000000/item/p1","timestamp":"2026-01-01T00:00:00.000Z","author":"Writer"}]}}"#
        + "\n"
}
