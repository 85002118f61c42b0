/// Who of this process works with a state: one store at a time.
///
/// The state belongs to a store's id, which lies in the store itself, so that a copy of the file has
/// it as well. Two files with one state would move each other's cursors.
final class StateClaim: Sendable {
    /// The claimed states, with the paths of their stores.
    private static let claims = Locked<[String: String]>([:])

    private let state: String
    private let isHeld = Locked(true)

    /// - Throws: `HistoryError` with `.storeCopied`.
    init(folder: String, store: StoreID, path: String) throws {
        state = "\(folder)/\(store)"
        let holder = Self.claims.withLock { claims in
            defer { if claims[state] == nil { claims[state] = path } }
            return claims[state]
        }
        guard let holder else { return }
        isHeld.withLock { $0 = false }
        throw HistoryError(
            .storeCopied,
            "The store \"\(path)\" is a copy of \"\(holder)\", which is served already: both have the id \(store).",
            hint: "Serve one of them; `historyctl untrack` and `track` make a store of its own of a copy.")
    }

    deinit { release() }

    func release() {
        guard
            isHeld.withLock({ isHeld in
                defer { isHeld = false }; return isHeld
            })
        else { return }
        _ = Self.claims.withLock { $0.removeValue(forKey: state) }
    }
}
