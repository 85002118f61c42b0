/// Prevents a cleanup from deleting history to which a consumer was moved back while it ran.
///
/// A cleanup relies on the positions of the consumers when it was planned. A move invalidates such plans,
/// and each step of a cleanup checks this before it deletes. A step and a move never happen at the same
/// time.
final class CleaningGate: Sendable {
    /// Identifies when a cleanup was planned, relative to moves.
    struct Pass: Sendable, Equatable { fileprivate let moves: Int }

    private let moves = Locked(0)

    /// Read it before the checkpoints that a plan relies on.
    var pass: Pass { moves.withLock { Pass(moves: $0) } }

    /// Checks that history still exists, and moves a consumer to it.
    func move<T>(_ body: () throws -> T) rethrows -> T {
        try moves.withLock { moves in
            moves += 1
            return try body()
        }
    }

    /// Takes a step of a cleanup.
    ///
    /// - Returns: Nil if a consumer was moved since the cleanup was planned. Nothing is deleted then.
    func step<T>(_ pass: Pass, _ body: () throws -> T) rethrows -> T? {
        try moves.withLock { moves in moves == pass.moves ? try body() : nil }
    }
}
