/// Keeps a cleanup from deleting what a consumer was moved back to while it ran.
///
/// A cleanup relies on where the consumers were when it was planned. A move makes such plans void, and each step of a
/// cleanup finds out before it deletes: a step and a move never happen at the same time.
final class CleaningGate: Sendable {
    /// When a cleanup was planned: between which moves.
    struct Pass: Sendable, Equatable { fileprivate let moves: Int }

    private let moves = Locked(0)

    /// To be asked for before the checkpoints are read that a plan relies on.
    var pass: Pass { moves.withLock { Pass(moves: $0) } }

    /// Checks that history is still there, and moves a consumer to it.
    func move<T>(_ body: () throws -> T) rethrows -> T {
        try moves.withLock { moves in
            moves += 1
            return try body()
        }
    }

    /// Takes a step of a cleanup.
    ///
    /// - Returns: Nil if a consumer was moved since it was planned: then nothing is deleted any more.
    func step<T>(_ pass: Pass, _ body: () throws -> T) rethrows -> T? {
        try moves.withLock { moves in moves == pass.moves ? try body() : nil }
    }
}
