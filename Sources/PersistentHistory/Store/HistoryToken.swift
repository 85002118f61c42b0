/// A position in the history of one store, written `<store id>:<number>`.
///
/// The number is that of the last change of a transaction. Numbers grow in the order of commits, and none is used
/// twice. So a token is a cursor that does not depend on a clock.
public struct HistoryToken: Hashable, Sendable, CustomStringConvertible {
    /// The store that the position is in.
    public let store: StoreID
    /// Grows in the order of the commits, with gaps.
    public let number: Int64

    /// A position in a store's history.
    public init(store: StoreID, number: Int64) {
        self.store = store
        self.number = number
    }

    /// Parses `<store id>:<number>`; nil if the text has another form.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
            let number = Int64(text[text.index(after: colon)...]), HistoryPosition.range.contains(number),
            let store = StoreID(String(text[..<colon]))
        else { return nil }
        self.init(store: store, number: number)
    }

    public var description: String { "\(store.text):\(number)" }
}
