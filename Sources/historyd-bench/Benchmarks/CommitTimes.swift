/// The times of a writer's commits, with and without a disturbance.
struct CommitTimes {
    private let group: String
    private let name: String
    private var disturbed: [Distribution] = []
    private var alone: [Distribution] = []

    /// - Parameter name: What may disturb it.
    init(_ group: String, _ name: String) {
        self.group = group
        self.name = name
    }

    /// The result of one round.
    mutating func add(_ times: Distribution, alone others: Distribution) {
        disturbed.append(times)
        alone.append(others)
    }

    /// - Parameter aim: for the p99.
    func figures(aim: Aim? = nil) -> [Figure] {
        [("p50", 0.5, nil), ("p99", 0.99, aim)].map { label, share, aim in
            Figure(
                group, "\(name), \(label)", rounds: disturbed.map { $0.quantile(share) }, .microseconds,
                against: .init(name: "without", rounds: alone.map { $0.quantile(share) }), aim: aim)
        }
    }
}
