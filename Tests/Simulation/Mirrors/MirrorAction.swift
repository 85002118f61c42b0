/// What happens around a publisher, its followers and their server.
enum MirrorAction: Sendable {
    /// How many transactions.
    case write(Int)
    case alter, cleanSource
    case backUp, restore
    /// Each with its chance of 256, from now on.
    case trouble(calls: Int, foreign: Int, words: Int)
    case endTrouble
    case loseConnections
    /// Another member of a cluster leads: it has no consumers, and says nothing.
    case changeLeader
    case stopServer, fillServer
    /// Somebody else publishes.
    case foreign(Part)
    case deleteStream(Part, isSaid: Bool)
    /// How many messages stay of the history.
    case limit(Int)
    case copyServer, restoreServer
    case restart(Program)
    case stop(Program)
    case start(Program)
    case newEpoch
    case loseMemory
    case removeMirror(Int)
    case cleanMirror(Int)

    enum Part: String, CaseIterable, Sendable { case history, snapshots }

    enum Program: Hashable, Sendable {
        case publisher
        /// Another one of the same store.
        case secondPublisher
        case follower(Int)
    }

    /// What it does, without how much.
    var kind: String { "mirrors " + String("\(self)".prefix { $0 != "(" }) }

    static let kinds =
        [
            "write", "alter", "cleanSource", "backUp", "restore", "trouble", "endTrouble", "loseConnections",
            "changeLeader", "stopServer", "fillServer", "foreign", "deleteStream", "limit", "copyServer",
            "restoreServer", "restart", "stop", "start", "newEpoch", "loseMemory", "removeMirror",
            "cleanMirror",
        ].map { "mirrors " + $0 }
}

extension Dice {
    mutating func mirrorPause() -> Int64 {
        element([100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000])
            * Int64(number(1...9))
    }

    mutating func mirrorAction() -> MirrorAction {
        if isTrue(2, of: 5) { return .write(number(1...4)) }
        switch number(0...27) {
        case 0: return .alter
        case 1: return .cleanSource
        case 2, 3: return .backUp
        case 4: return .restore
        case 5, 6:
            return .trouble(
                calls: element([0, 2, 10, 40]), foreign: element([0, 0, 20, 80]), words: element([0, 10, 60]))
        case 7: return .endTrouble
        case 8: return .loseConnections
        case 9: return .changeLeader
        case 10: return .stopServer
        case 11: return .fillServer
        case 12, 13: return .foreign(element(MirrorAction.Part.allCases))
        case 14: return .deleteStream(element(MirrorAction.Part.allCases), isSaid: isTrue(1, of: 2))
        case 15: return .limit(number(1...12))
        case 16, 17: return .copyServer
        case 18: return .restoreServer
        case 19: return .restart(program())
        case 20: return .stop(program())
        case 21: return .start(program())
        case 22: return .start(.secondPublisher)
        case 23: return .newEpoch
        case 24: return .loseMemory
        case 25: return .removeMirror(number(0...1))
        default: return .cleanMirror(number(0...1))
        }
    }

    private mutating func program() -> MirrorAction.Program {
        element([.publisher, .publisher, .secondPublisher, .follower(0), .follower(1)])
    }
}
