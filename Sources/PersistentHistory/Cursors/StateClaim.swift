/// Who of this process works with a state: one store at a time.
///
/// The state belongs to a store's id, which lies in the store itself, so that a copy of the file has
/// it as well. Two files with one state would move each other's cursors.
final class StateClaim: Sendable {
    /// The claimed states, with the paths of their stores.
    private static let claims = Locked<[String: String]>([:])

    private let state: String

    /// - Throws: `HistoryError` with `.storeCopied`.
    static func make(folder: String, store: StoreID, path: String) throws -> StateClaim {
        let state = "\(folder)/\(store)"
        let holder = claims.withLock { claims in
            defer { if claims[state] == nil { claims[state] = path } }
            return claims[state]
        }
        guard let holder else { return StateClaim(state) }
        throw HistoryError(
            .storeCopied,
            "The store \"\(path)\" is a copy of \"\(holder)\", which is served already: both have the id \(store).",
            hint: "Serve one of them; `historyctl untrack` and `track` make a store of its own of a copy.")
    }

    private init(_ state: String) { self.state = state }

    deinit { _ = Self.claims.withLock { $0.removeValue(forKey: state) } }
}
