import PersistentHistory

/// The order of the merge pipeline.
package enum MergeOrder {
    /// Moves each merge hook with a `before` directly in front of the hook that it names. The others keep their
    /// order, and so do several in front of the same one.
    ///
    /// Apply it to all merge hooks of a configuration at once, before selecting those of a consumer: otherwise
    /// a hook would lose its position along with the hook it refers to. A hook whose `before` names none of the
    /// others keeps its position; those in a cycle come last. (A manifest with either is refused, but hooks can
    /// be removed from a running daemon.)
    package static func arrange<H>(_ hooks: [H], name: (H) -> String, before: (H) -> String?) -> [H] {
        let names = Set(hooks.map(name))
        var inFront: [String: [Int]] = [:]
        var roots: [Int] = []
        for (index, hook) in hooks.enumerated() {
            if let target = before(hook), names.contains(target) {
                inFront[target, default: []].append(index)
            } else {
                roots.append(index)
            }
        }
        // Depth first over a forest. An explicit stack is used because a chain may be long: a hook is opened
        // (those in front of it come first), then written.
        var order: [Int] = []
        var stack: [(index: Int, isOpen: Bool)] = roots.reversed().map { ($0, false) }
        while let (index, isOpen) = stack.popLast() {
            if isOpen {
                order.append(index)
                continue
            }
            stack.append((index, true))
            stack += inFront[name(hooks[index]), default: []].reversed().map { ($0, false) }
        }
        let placed = Set(order)
        order += hooks.indices.filter { !placed.contains($0) }
        return order.map { hooks[$0] }
    }

    /// The merge hooks of these plugins in the order of the pipeline. The plugins are in manifest order.
    package static func pipeline(of plugins: [PluginConfiguration]) -> [HookConfiguration] {
        arrange(plugins.flatMap(\.hooks).filter { $0.kind == .merge }, name: \.fullName, before: \.before)
    }
}
