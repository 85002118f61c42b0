import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// When the history can be read on from a token, and what is said where it cannot.
@Suite struct HistoryBoundsTests {
    private let store = StoreID.sample()
    private var bounds: HistoryBounds { HistoryBounds(store: store, floor: 3, end: 7) }

    @Test(
        arguments: [
            (0, .expired), (2, .expired), (3, nil), (5, nil), (7, nil), (8, .ahead),
        ] as [(Int64, HistoryBounds.Loss?)])
    func byNumber(_ number: Int64, _ loss: HistoryBounds.Loss?) {
        #expect(bounds.loss(at: bounds.token(number)) == loss)
    }

    /// What its number says means nothing in another store.
    @Test(arguments: [0, 5, 8] as [Int64]) func ofAnotherStore(_ number: Int64) {
        let token = HistoryToken(store: StoreID.sample(2), number: number)
        #expect(bounds.loss(at: token) == .otherStore)
        #expect(code { () throws(HistoryError) in try bounds.check(after: token) } == .tokenForeign)
        #expect(code { () throws(HistoryError) in try bounds.checkReaches(token) } == .tokenForeign)
    }

    /// A history that was deleted whole can be read on from its end alone.
    @Test func whereAllWasDeleted() {
        let bounds = HistoryBounds(store: store, floor: 7, end: 7)
        #expect((6...8).map { bounds.loss(at: bounds.token($0)) } == [.expired, nil, .ahead])
    }

    @Test func whatWasDeletedWasReached() {
        let codes = ([2, 3, 7, 8] as [Int64]).map { number -> [HistoryError.Code?] in
            let token = bounds.token(number)
            return [
                code { () throws(HistoryError) in try bounds.check(after: token) },
                code { () throws(HistoryError) in try bounds.checkReaches(token) },
            ]
        }
        #expect(codes == [[.tokenExpired, nil], [nil, nil], [nil, nil], [.tokenAhead, .tokenAhead]])
    }

    private func code(_ body: () throws(HistoryError) -> Void) -> HistoryError.Code? {
        do {
            try body()
            return nil
        } catch { return error.code }
    }
}
