/// The stores of a folder, summed up.
package struct TemplateReport: Codable, Sendable, Hashable {
    package var name: String
    package var folder: String
    /// Why the folder is not watched.
    package var problem: String?
    package var stores = 0
    package var open = 0
    package var waiting = 0
    package var paused = 0
    package var resting = 0
    /// Stores with a consumer that lags.
    package var lagging = 0
    /// Stores with a problem, or with a consumer that has one.
    package var failing = 0
    package var deadLetters = 0
    /// The longest lag of a consumer, in seconds.
    package var longestLag: Double = 0
    /// Files that were refused since the watch of the folder started.
    package var refused: Int

    /// - Parameter stores: The stores of all templates.
    package init(
        name: String, folder: String, problem: String?, refused: Int, stores: some Sequence<StoreReport>
    ) {
        self.name = name
        self.folder = folder
        self.problem = problem
        self.refused = refused
        for store in stores where store.template == name {
            self.stores += 1
            switch store.state {
            case .open: open += 1
            case .waiting: waiting += 1
            case .paused: paused += 1
            case .resting: resting += 1
            }
            if store.consumers.contains(where: { $0.state == .behind }) { lagging += 1 }
            if store.isFailing { failing += 1 }
            deadLetters += store.consumers.compactMap(\.deadLetters).reduce(0, +)
            longestLag = max(longestLag, store.consumers.compactMap { $0.lag?.seconds }.max() ?? 0)
        }
    }
}

extension StoreReport {
    /// Whether it, or one of its consumers, has a problem.
    package var isFailing: Bool {
        problem != nil || untracked != nil || consumers.contains { $0.problem != nil }
    }

    /// Whether it is listed by itself, and not only counted with its folder.
    package var isNotable: Bool { template == nil || isFailing || consumers.contains(where: \.isNotable) }
}

extension ConsumerReport {
    /// Whether it is listed by itself, and not only counted with its folder.
    package var isNotable: Bool {
        template == nil || problem != nil || deadLetters ?? 0 > 0
            || [.held, .retrying, .waiting].contains(state)
    }
}
