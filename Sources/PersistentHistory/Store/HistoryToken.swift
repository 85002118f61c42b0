/// A position in the history of one store, written `<store id>:<number>`.
///
/// The number is that of the last change of a transaction. Numbers only grow, in the order of
/// commits, and are never given twice; a token is therefore a cursor that no clock can disturb.
///
/// Tokens of one store are ordered as their commits were. Those of several stores are put in order by the stores'
/// ids, so that they can be sorted; that says nothing about time.
public struct HistoryToken: Hashable, Comparable, Sendable, CustomStringConvertible {
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

    /// Whether the first was committed before the second, where both are of one store.
    public static func < (a: Self, b: Self) -> Bool {
        a.store == b.store ? a.number < b.number : a.store.text < b.store.text
    }

    public var description: String { "\(store.text):\(number)" }
}
