/// Where a run has its files. Each store, its state and its replicas can suffer alone.
struct Files: Sendable {
    let folder: String
    /// Whether all stores lie in one folder, which is served.
    var isShared = false

    var state: String { folder + "/state" }
    var addedHooks: String { state + "/hooks.d" }
    var synced: String { folder + "/synced" }
    /// Copies of what of a store's replicas is on the disk.
    func syncedReplicas(_ store: String) -> String { "\(folder)/synced-\(store)" }
    /// What a plugin keeps for a consumer.
    func index(_ store: String, _ consumer: String) -> String { "\(folder)/index-\(store)-\(consumer)" }
    var record: String { folder + "/record" }
    var configuration: String { folder + "/historyd.json" }
    var manifest: String { folder + "/manifest.json" }
    var control: String { folder + "/control.sock" }
    var notifications: String { folder + "/notify.sock" }
    func program(of store: Int) -> String { "\(folder)/p\(store)" }
    func folder(of store: String) -> String { isShared ? "\(folder)/stores" : "\(folder)/\(store)" }
    func store(_ name: String) -> String { "\(folder(of: name))/\(isShared ? name : "store").sqlite" }
    /// Where a store is that has left the folder.
    func away(_ name: String) -> String { "\(folder)/away-\(name).sqlite" }
    func replicas(_ store: String) -> String { "\(folder)/replicas/\(store)" }
    func replica(_ store: String, _ consumer: String) -> String { "\(replicas(store))/\(consumer).sqlite" }

    /// What begins so is a part of a store.
    func prefix(of part: Part, of store: String, id: String) -> String {
        switch part {
        case .store: folder(of: store) + (isShared ? "/\(store)." : "/")
        case .state: "\(state)/\(id)"
        case .replica: replicas(store) + "/"
        }
    }
}
