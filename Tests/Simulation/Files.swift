import FoundationEssentials
import PersistentHistory

/// Where a run has its files. Each store, its state and its replicas can suffer alone.
struct Files: Sendable {
    let folder: String

    var state: String { folder + "/state" }
    var synced: String { folder + "/synced" }
    var record: String { folder + "/record" }
    func folder(of store: String) -> String { "\(folder)/\(store)" }
    func store(_ name: String) -> String { "\(folder)/\(name)/store.sqlite" }
    func replicas(_ store: String) -> String { "\(folder)/\(store)-replicas" }
    func replica(_ store: String, _ consumer: String) -> String { "\(replicas(store))/\(consumer).sqlite" }

    /// The same in each run.
    static func id(_ consumer: Int, _ hook: String) -> UUID {
        let number = hook.utf8.reduce(UInt8(consumer)) { $0 &* 31 &+ $1 }
        return UUID(uuid: (number, 1, 1, 1, 1, 1, 0x41, 1, 0x81, 1, 1, 1, 1, 1, 1, UInt8(consumer)))
    }

    /// What begins so is a part of a store.
    func prefix(of part: Part, of store: String, id: String) -> String {
        switch part {
        case .store: folder(of: store) + "/"
        case .state: "\(state)/\(id)"
        case .replica: replicas(store) + "/"
        }
    }
}
