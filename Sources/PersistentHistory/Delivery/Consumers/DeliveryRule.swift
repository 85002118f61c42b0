/// Which transactions are delivered to a consumer, and which history may be cleaned.
public struct DeliveryRule: Sendable, Equatable, Codable {
    /// Authors that write on behalf of a sync service, with a log of their own (the kit's
    /// `includingCloudKitMirroring`).
    public static let cloudKitMirroring: Set<BinaryText> = [
        "NSCloudKitMirroringDelegate.import", "NSCloudKitMirroringDelegate.export",
    ]

    /// All registered authors, including those that only write.
    public let authors: Set<BinaryText>
    /// Whether transactions by null or unregistered authors are delivered.
    public let deliversUnlisted: Bool
    /// Whether history by unlisted authors is cleaned although it is not delivered.
    public let cleansUnlisted: Bool
    /// Authors whose transactions are neither delivered nor cleaned.
    public let mirroring: Set<BinaryText>
    /// Mirroring authors whose transactions are treated like any other.
    private let included: Set<BinaryText>
    /// Processes or apps that are the consumer's own, in a Core Data store: by the name of the process or the
    /// bundle identifier. There, most transactions have no author.
    package var ownProcesses: Set<BinaryText> = []

    /// The authors, and which of their transactions are delivered.
    public init(
        authors: Set<BinaryText>, deliversUnlisted: Bool = true, cleansUnlisted: Bool = false,
        mirroringAuthors: Set<BinaryText> = [], includingMirroring: Bool = false
    ) {
        self.authors = authors
        self.deliversUnlisted = deliversUnlisted
        self.cleansUnlisted = cleansUnlisted
        let all = mirroringAuthors.union(Self.cloudKitMirroring)
        mirroring = includingMirroring ? [] : all
        included = includingMirroring ? all : []
    }

    /// Whether history by this author is delivered to any consumer, and cleaned.
    public func covers(_ author: String?) -> Bool {
        guard let author else { return deliversUnlisted }
        if mirroring.contains(author) { return false }
        return deliversUnlisted || authors.contains(author) || included.contains(author)
    }

    /// Whether history by this author may be cleaned once all consumers have processed it.
    public func cleans(_ author: String?) -> Bool { covers(author) || cleansUnlisted && isUnlisted(author) }

    /// Whether an author is neither registered nor a mirroring one.
    func isUnlisted(_ author: String?) -> Bool {
        guard let author else { return true }
        return !authors.contains(author) && !mirroring.contains(author) && !included.contains(author)
    }

    /// Whether a transaction of this author is delivered to a consumer: all except its own are.
    public func delivers(_ author: String?, to consumer: String) -> Bool {
        !author.hasSameBytes(as: consumer) && covers(author)
    }

    /// The same for a transaction, of which the consumer's own process may also have been the writer.
    func delivers(_ transaction: HistoryTransaction, to consumer: String) -> Bool {
        delivers(transaction.author, to: consumer) && !isOfOwnProcess(transaction.application)
    }

    private func isOfOwnProcess(_ application: Application?) -> Bool {
        guard !ownProcesses.isEmpty, let application else { return false }
        return [application.process, application.bundleID].contains { name in
            name.map { ownProcesses.contains($0) } ?? false
        }
    }

    /// The consumer's own transactions after a position.
    func own(_ transactions: [HistoryTransaction], after position: Int64, of consumer: String)
        -> [HistoryTransaction]
    {
        transactions.filter { $0.number > position && $0.author.hasSameBytes(as: consumer) && covers(consumer) }
    }

    /// The transactions after a position that a consumer receives.
    func relevant(_ transactions: [HistoryTransaction], after position: Int64, to consumer: String)
        -> [HistoryTransaction]
    {
        // Transactions of one writer often come together, and share its description.
        var last: (authorship: Authorship, isDelivered: Bool)?
        return transactions.filter { transaction in
            guard transaction.number > position else { return false }
            let authorship = transaction.authorship
            if let last, last.authorship === authorship { return last.isDelivered }
            let isDelivered = delivers(transaction, to: consumer)
            last = (authorship, isDelivered)
            return isDelivered
        }
    }

    /// The same for all rules that keep the same history.
    var keeping: String {
        let takesUnlisted = deliversUnlisted || cleansUnlisted
        let listed = takesUnlisted ? [] : authors.union(included).sorted().map(\.text)
        return
            "\(takesUnlisted)\n\(mirroring.sorted().map(\.text).joined(separator: "\t"))\n\(listed.joined(separator: "\t"))"
    }
}
