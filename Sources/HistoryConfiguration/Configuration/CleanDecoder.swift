import PersistentHistory

/// Decodes a store's `clean`.
enum CleanDecoder {
    private enum Name: String, CaseIterable {
        case never = "none"
        case byDuration, byNotification
    }

    static func decode(_ node: DocumentNode) -> CleanConfiguration? {
        guard let fields = node.fields(["strategy", "seconds", "times", "maximumDuration", "keep"]) else {
            return nil
        }
        let name: Name? =
            if let node = fields["strategy"] { node.choice(Name.allCases) } else { .never }
        let seconds = fields["seconds"]?.duration()
        let times = fields["times"]?.integer(in: 1...1_000_000)
        let strategy: CleaningStrategy?
        switch name {
        case nil, .never: strategy = CleaningStrategy.none
        case .byDuration:
            _ = fields.required("seconds", "\(DurationText.expected), with strategy \"byDuration\"")
            strategy = seconds.map { .byDuration($0) }
        case .byNotification:
            _ = fields.required("times", "a number of notifications, with strategy \"byNotification\"")
            strategy = times.map { .byNotification(times: $0) }
        }
        // An unreadable strategy does not make its keys wrong, too.
        if name != nil, name != .byDuration { fields.refuse("seconds", "only strategy \"byDuration\" has it") }
        if name != nil, name != .byNotification {
            fields.refuse("times", "only strategy \"byNotification\" has it")
        }
        let maximum = fields["maximumDuration"]?.duration()
        let keep = fields["keep"]?.duration(from: .none) ?? .zero
        return strategy.map { CleanConfiguration(strategy: $0, maximumDuration: maximum, keep: keep) }
    }
}
