/// Cleans a store's history when it is told to, and only as far as every author that must have had
/// it has got.
public actor ManualCleaner {
    private let path: String
    private let stateFolder: String
    private let consumers: Set<String>
    private let rule: DeliveryRule

    init(path: String, stateFolder: String, consumers: Set<String>, rule: DeliveryRule) {
        self.path = path
        self.stateFolder = stateFolder
        self.consumers = consumers
        self.rule = rule
    }

    /// Deletes what every author has had that does more than write.
    ///
    /// - Returns: How much was deleted; nil where an author has not begun yet, which holds back everything.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func clean() async throws -> HistoryCleaner.Outcome? {
        try await WriterProbes.shared.withLease(on: path, stateFolder: stateFolder) {
            guard let limit = try limit() else { return nil }
            return try await HistoryCleaner(path: path, rule: rule).clean(through: limit)
        }
    }

    private func limit() throws -> Int64? {
        let reader = try HistoryReader(path: path)
        let newest = try reader.newestToken().number
        try reader.close()
        let state = try StateDatabase(folder: stateFolder, store: reader.storeID)
        let cursors = try state.cursors.all()
        try state.close()
        let holders = consumers.map {
            CleaningPlan.Holder(consumer: $0, number: cursors[$0]?.position, standing: .zero)
        }
        return CleaningPlan(holders, newest: newest, maximumDuration: nil).number
    }
}
