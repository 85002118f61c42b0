/// Where a store's history begins and ends. This decides whether it can be read from a position.
package struct HistoryBounds: Sendable, Equatable {
    package let store: StoreID
    /// History up to here may have been deleted: reading from an older position would miss something.
    package let floor: Int64
    /// The newest position, even if all history was deleted.
    package let end: Int64

    package init(store: StoreID, floor: Int64, end: Int64) {
        self.store = store
        self.floor = floor
        self.end = end
    }

    /// Why the history cannot be read from a token.
    package enum Loss { case otherStore, ahead, expired }

    /// Nil if the history can be read from a token.
    package func loss(at token: HistoryToken) -> Loss? {
        if !token.store.isSame(as: store) { return .otherStore }
        if token.number > end { return .ahead }
        return token.number < floor ? .expired : nil
    }

    package var oldest: HistoryToken { token(floor) }
    package var newest: HistoryToken { token(end) }

    func token(_ number: Int64) -> HistoryToken { HistoryToken(store: store, number: number) }

    /// Checks that everything after a token still exists.
    ///
    /// - Throws: `HistoryError` with `.tokenForeign`, `.tokenAhead` or `.tokenExpired`.
    package func check(after token: HistoryToken) throws(HistoryError) {
        try checkReaches(token)
        if loss(at: token) == .expired { throw .expired(token.number, oldest: oldest) }
    }

    /// The same for a number of this store.
    ///
    /// - Parameter isPosition: Whether 0 is a position after which something may be missing, or stands
    ///   for whatever exists.
    package func check(after number: Int64, isPosition: Bool = true) throws(HistoryError) {
        if number > 0 || isPosition { try check(after: token(number)) }
    }

    /// Checks that the history has reached a token, even if it was deleted since.
    ///
    /// - Throws: `HistoryError` with `.tokenForeign` or `.tokenAhead`.
    package func checkReaches(_ token: HistoryToken) throws(HistoryError) {
        switch loss(at: token) {
        case .otherStore: throw .foreign(token, to: store)
        case .ahead: throw .ahead(token, newest: newest)
        case .expired, nil: break
        }
    }
}

/// Numbers of changes in a store's history.
package enum HistoryPosition {
    /// Far more than any store reaches, and far enough from the largest integer to count on from there.
    package static let range: ClosedRange<Int64> = 0...(1 << 62)
}
