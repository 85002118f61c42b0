/// Calls that are repeated because an operator moved a consumer back.
///
/// Their delivery ids distinguish them from the first calls and mark them as repetitions. What the
/// consumer had not reached before the move is delivered as usual, with the ids that it would have had.
struct Replay: Sendable, Equatable {
    /// How often the consumer was moved back. Each time its calls have other ids.
    let number: Int64
    /// The furthest position of the consumer before the move. What follows it is not a repetition.
    let through: Int64
    /// The end of the batch that was in progress there; see `ConsumerMachine.batchEnd`.
    let batchEnd: Int64

    /// The end of the batch that a consumer may not have finished at a position.
    ///
    /// - Parameter saved: The end of the last batch that was started. The replay's own batches are
    ///   separate.
    func batchEnd(at position: Int64, saved: Int64) -> Int64 {
        position >= through && saved <= position ? batchEnd : saved
    }
}

extension Replay {
    private static let mark = "/replay-"

    /// The suffix of delivery ids.
    static func suffix(_ number: Int64?) -> String { number.map { "\(mark)\($0)" } ?? "" }

    /// A delivery id without the suffix that distinguishes repetitions of the same call, and the number
    /// of its replay.
    static func parts(of delivery: String) -> (name: String, number: Int64?) {
        // A hook's name may contain anything, so only the suffix counts.
        let bytes = Array(delivery.utf8)
        let digits = bytes.reversed().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
        let name = bytes.dropLast(digits)
        guard digits > 0, name.suffix(mark.utf8.count).elementsEqual(mark.utf8),
            let number = Int64(String(decoding: bytes.suffix(digits), as: UTF8.self))
        else { return (delivery, nil) }
        return (String(decoding: name.dropLast(mark.utf8.count), as: UTF8.self), number)
    }
}
