/// Calls that are made once more, because an operator moved a consumer back.
///
/// They are told from the first ones by their delivery ids, and say so. What the consumer had not come to before it was
/// moved is delivered as ever, under the ids that it would have had.
struct Replay: Sendable, Equatable {
    /// How often the consumer was moved back: each time its calls have other ids.
    let number: Int64
    /// The last position that the consumer had been at: what lies behind it is no repetition.
    let through: Int64
    /// Where the batch ended that was in progress there; see `ConsumerMachine.batchEnd`.
    let batchEnd: Int64

    /// The batch that a consumer may not have finished, at a position.
    ///
    /// - Parameter saved: The end of the last batch that was begun. Those of the replay are its own.
    func batchEnd(at position: Int64, saved: Int64) -> Int64 {
        position >= through && saved <= position ? batchEnd : saved
    }
}

extension Replay {
    private static let mark = "/replay-"

    /// What a delivery id ends with.
    static func suffix(_ number: Int64?) -> String { number.map { "\(mark)\($0)" } ?? "" }

    /// A delivery id without what tells it from earlier ones of the same call, and of which replay it was.
    static func parts(of delivery: String) -> (name: String, number: Int64?) {
        // A hook's name may contain anything, so only the end counts.
        let bytes = Array(delivery.utf8)
        let digits = bytes.reversed().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
        let name = bytes.dropLast(digits)
        guard digits > 0, name.suffix(mark.utf8.count).elementsEqual(mark.utf8),
            let number = Int64(String(decoding: bytes.suffix(digits), as: UTF8.self))
        else { return (delivery, nil) }
        return (String(decoding: name.dropLast(mark.utf8.count), as: UTF8.self), number)
    }
}
