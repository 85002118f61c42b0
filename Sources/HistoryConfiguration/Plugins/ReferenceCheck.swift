import PersistentHistory

/// Checks the names of stores, consumers and other hooks to which hooks refer.
struct ReferenceCheck {
    let references: [HookReferences]

    // MARK: Stores and consumers

    func checkStores(of configuration: DaemonConfiguration) {
        for reference in references {
            var stores = configuration.storesAndPrototypes
            if let name = reference.hook.store, let node = reference.store {
                stores = configuration.stores.filter { NamePattern.matches(name, $0.name) }
                stores += configuration.templates.filter { $0.mayHave(name) }.map(\.prototype)
                if stores.isEmpty {
                    node.reportUnknown("store", name, known: configuration.storesAndPrototypes.map(\.name))
                    // The hook is for any store, so all are searched for the consumer.
                    stores = configuration.storesAndPrototypes
                }
            }
            if let name = reference.hook.consumer, let node = reference.consumer {
                check(consumer: name, at: node, in: stores)
            }
        }
    }

    private func check(consumer name: String, at node: DocumentNode, in stores: [StoreConfiguration]) {
        let authors = stores.flatMap(\.authors).filter { $0.name.hasSameBytes(as: name) }
        if authors.contains(where: { !$0.isBatch }) { return }
        let known = stores.flatMap(\.consumers).map(\.name)
        if authors.isEmpty {
            var seen = Set<BinaryText>()
            node.reportUnknown("consumer", name, known: known.filter { seen.insert($0) })
        } else {
            node.report("expected a consumer; \(name.quoted) is a batch author, which receives nothing")
        }
    }

    // MARK: Conditions

    /// Checks conditions against the existing stores, and reads these.
    func checkConditions(of configuration: DaemonConfiguration) {
        for reference in references {
            let hook = reference.hook
            guard let entity = hook.entity, let expression = hook.condition, let node = reference.condition
            else { continue }
            let stores = configuration.stores.filter { store in
                hook.store.map { NamePattern.matches($0, store.name) } ?? true
            }
            for store in stores {
                Self.check(
                    RowCondition(entity: entity, expression), at: node, in: store,
                    takesDeletes: hook.operations.contains(.delete),
                    mayLackTable: hook.store.map { NamePattern.isPattern($0) } ?? true)
            }
        }
    }

    static func check(
        _ condition: RowCondition, at node: DocumentNode, in store: StoreConfiguration, takesDeletes: Bool,
        mayLackTable: Bool
    ) {
        if store.source.isOnlyRead {
            if !mayLackTable {
                node.report("the rows of \(store.name.quoted) are not read: Core Data records its history")
            }
            return
        }
        // Other problems of a store are reported elsewhere.
        let found = try? condition.problem(
            in: store.path, takesDeletes: takesDeletes, mayLackTable: mayLackTable)
        if let problem = found ?? nil { node.report("store \(store.name.quoted): \(problem)") }
    }

    // MARK: Contexts

    /// - Parameter complete: Whether all plugins are known, so that an unknown name is an error.
    static func checkContext(
        _ name: String, at node: DocumentNode, in plugins: [PluginConfiguration], complete: Bool
    ) {
        guard let plugin = plugins.first(where: { $0.name == name }) else {
            if complete { node.reportUnknown("plugin", name, known: plugins.map(\.name)) }
            return
        }
        guard plugin.mode != .coprocess else { return }
        node.report(
            "expected a plugin with \"mode\": \"coprocess\"; \(name.quoted) is started for each call, and cannot keep a context"
        )
    }

    // MARK: The merge order

    /// - Parameters:
    ///   - others: Hooks that are registered already.
    ///   - complete: Whether all hooks are known, so that an unknown name is an error.
    func checkOrder(besides others: [HookConfiguration], complete: Bool) {
        let all =
            references.map { (hook: $0.hook, isMerge: $0.hook.kind == .merge || !$0.kindIsKnown) }
            + others.map { (hook: $0, isMerge: $0.kind == .merge) }
        let isMerge = Dictionary(all.map { ($0.hook.fullName, $0.isMerge) }, uniquingKeysWith: { $0 || $1 })
        for reference in references {
            guard let node = reference.before, let target = reference.hook.before else { continue }
            switch isMerge[target] {
            case true: break
            case false: node.report("expected a merge hook; \(target.quoted) is an observer")
            case nil:
                let known = all.filter(\.isMerge).map(\.hook.fullName).filter { $0 != reference.hook.fullName }
                if complete { node.reportUnknown("merge hook", target, known: known) }
            }
        }
        checkCycles(besides: others)
    }

    /// Reports each cycle once, at the first of its hooks.
    private func checkCycles(besides others: [HookConfiguration]) {
        let hooks = references.map(\.hook) + others
        let pairs = hooks.compactMap { hook in hook.before.map { (hook.fullName, $0) } }
        let before = Dictionary(pairs, uniquingKeysWith: { first, _ in first })
        var seen = Set<String>()
        for reference in references {
            guard let node = reference.before else { continue }
            var name = reference.hook.fullName
            var way = [name]
            while let next = before[name], seen.insert(name).inserted {
                name = next
                way.append(name)
            }
            // It returns to a hook of this walk (and not of an earlier one): the part from there on is the
            // cycle.
            guard let entry = way.firstIndex(of: name), entry < way.count - 1 else { continue }
            let cycle = way[entry...]
            if cycle.count == 2 {
                report(at: name, else: node, "a hook cannot be before itself")
            } else {
                let names = cycle.map(\.printable).joined(separator: " before ")
                report(at: name, else: node, "hooks are before each other in a circle: \(names)")
            }
        }
    }

    private func report(at name: String, else node: DocumentNode, _ message: String) {
        let reference = references.first { $0.hook.fullName == name }?.before
        (reference ?? node).report(message)
    }
}
