/// Where a run has its files. Each store, its state and its replicas can suffer alone.
struct Files: Sendable {
    let folder: String

    var state: String { folder + "/state" }
    var synced: String { folder + "/synced" }
    var record: String { folder + "/record" }
    var configuration: String { folder + "/historyd.json" }
    var manifest: String { folder + "/manifest.json" }
    var control: String { folder + "/control.sock" }
    var notifications: String { folder + "/notify.sock" }
    func program(of store: Int) -> String { "\(folder)/p\(store)" }
    func folder(of store: String) -> String { "\(folder)/\(store)" }
    func store(_ name: String) -> String { "\(folder)/\(name)/store.sqlite" }
    func replicas(_ store: String) -> String { "\(folder)/\(store)-replicas" }
    func replica(_ store: String, _ consumer: String) -> String { "\(replicas(store))/\(consumer).sqlite" }

    /// What begins so is a part of a store.
    func prefix(of part: Part, of store: String, id: String) -> String {
        switch part {
        case .store: folder(of: store) + "/"
        case .state: "\(state)/\(id)"
        case .replica: replicas(store) + "/"
        }
    }
}
