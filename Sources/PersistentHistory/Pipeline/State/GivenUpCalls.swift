/// Calls behind a consumer's position that an earlier session gave up. They are dead letters, and are not
/// repeated.
///
/// The position is saved after the letter, so a session may end between the two. A restored store uses
/// numbers again, so a call counts as given up only if its transaction is that of the letter.
struct GivenUpCalls: Sendable {
    private var transactions: [BinaryText: [UInt8]] = [:]

    /// - Parameter letters: The deliveries with the parameters of their calls.
    init(_ letters: some Sequence<(delivery: String, call: String)> = []) {
        for (delivery, call) in letters {
            transactions[BinaryText(delivery)] = Self.transaction(of: Array(call.utf8))
        }
    }

    var isEmpty: Bool { transactions.isEmpty }

    func contains(_ header: HookCallHeader, _ call: @autoclosure () -> [UInt8]) -> Bool {
        guard !isEmpty, let transaction = transactions[BinaryText(header.delivery)] else { return false }
        return transaction == Self.transaction(of: call())
    }

    /// The part of a call that identifies its first transaction, up to the time of the commit: rows and
    /// changes may be read differently later. The whole call if it has no transaction.
    private static func transaction(of call: [UInt8]) -> [UInt8] {
        guard let start = call.firstRange(of: #"{"token":"#.utf8)?.lowerBound,
            let time = call[start...].firstRange(of: #""timestamp":""#.utf8)?.upperBound,
            let end = call[time...].firstIndex(of: UInt8(ascii: "\""))
        else { return call }
        return Array(call[start..<end])
    }
}
