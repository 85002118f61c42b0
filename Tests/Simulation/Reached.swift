import HistoryControl
import PersistentHistory

/// How much of what can happen did: kinds of steps, messages of the journal, and states that the daemon's answers tell.
struct Reached {
    private(set) var items: Set<String> = []

    init() {}

    init(_ scenario: Scenario, _ record: String) {
        let kinds = Dictionary(uniqueKeysWithValues: scenario.steps.map { ("\($0.number)", $0.action.kind) })
        for line in record.split(separator: "\n").compactMap(Record.Line.init) {
            switch line.kind {
            case "step": if let kind = kinds[line[0]] { items.insert("step \(kind)") }
            case "message": items.insert("message \(line[0])")
            case "answered":
                for part in line[3].split(separator: "\"state\":\"").dropFirst() {
                    items.insert("state \(part.prefix { $0 != "\"" })")
                }
            default: break
            }
        }
    }

    /// As its text says it.
    init(_ text: Substring) { items = Set(text.split(separator: ",").map(String.init)) }
    var text: String { items.sorted().joined(separator: ",") }

    mutating func add(_ other: Reached) { items.formUnion(other.items) }

    private static let all: [(name: String, items: [String])] = [
        ("step", Step.Action.kinds),
        ("message", MessageCode.allCases.map { "\($0)" }.filter(isOfDaemon)),
        (
            "state",
            Set(
                StoreReport.State.allCases.map(\.rawValue) + ConsumerReport.State.allCases.map(\.rawValue)
                    + FeedReport.State.allCases.map(\.rawValue) + PluginReport.State.allCases.map(\.rawValue)
            ).sorted()
        ),
    ]

    /// Whether it is no message of historyd-nats.
    private static func isOfDaemon(_ message: String) -> Bool {
        !message.hasPrefix("nats") && !message.hasPrefix("mirror")
    }

    /// For each sort how many there were, and what was not.
    func summary(namingTheRest: Bool) -> String {
        Self.all.map { name, all in
            let missing = all.filter { !items.contains("\(name) \($0)") }
            let rest = namingTheRest && !missing.isEmpty ? "; not: \(missing.joined(separator: ", "))" : ""
            return "  \(all.count - missing.count) of \(all.count) \(name)s\(rest)"
        }.joined(separator: "\n")
    }
}

extension Step.Action {
    /// What it does, without where.
    var kind: String {
        switch self {
        case .commit(_, _, let change, _): "commit \(change)"
        case .torn: "torn"
        case .hold(_, let isExclusive): isExclusive ? "hold exclusively" : "hold"
        case .release: "release"
        case .plugin(_, let manners): "plugin \(manners)"
        case .disk(_, let part, let trouble): "disk \(part) \(trouble)"
        case .repair(_, let part): "repair \(part)"
        case .alter: "alter"
        case .schema(_, let change): "schema \(change)"
        case .backUp: "backUp"
        case .restore(_, let inPlace): inPlace ? "restore in place" : "restore by rename"
        case .remove(_, let part, _): "remove \(part)"
        case .read(_, let part): "read \(part)"
        case .endRead(_, let part): "endRead \(part)"
        case .machine(let machine): "machine \(machine)"
        case .rare(_, let rarity): "rare \(rarity)"
        case .leave: "leave"
        case .come: "come"
        case .kill: "kill"
        case .cutPower: "cutPower"
        case .restart: "restart"
        case .stayDown: "stayDown"
        case .ask(let question, _): "ask \(question)"
        case .reload(let change, _, _): "reload \(change)"
        case .mirrors(let action): action.kind
        }
    }

    static let kinds =
        [
            "torn", "hold", "hold exclusively", "release", "alter", "kill", "cutPower", "restart", "stayDown",
            "remove store", "remove state", "remove replica", "read state", "read replica", "endRead state",
            "endRead replica", "backUp", "restore in place", "restore by rename", "leave", "come",
        ]
        + Change.allCases.map { "commit \($0)" } + Manners.allCases.map { "plugin \($0)" }
        + Part.allCases.flatMap { part in Trouble.allCases.map { "disk \(part) \($0)" } + ["repair \(part)"] }
        + Machine.allCases.map { "machine \($0)" } + Question.allCases.map { "ask \($0)" }
        + MirrorAction.kinds + Reconfiguration.allCases.map { "reload \($0)" }
        + Rarity.allCases.map { "rare \($0)" } + SchemaChange.allCases.map { "schema \($0)" }
}
