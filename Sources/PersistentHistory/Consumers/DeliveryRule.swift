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

    /// Which authors there are, and whose transactions are delivered.
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

    /// Whether history by this author may be cleaned once everybody is past it.
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

    /// Those of some transactions that a consumer made itself, after a position.
    func own(_ transactions: [HistoryTransaction], after position: Int64, of consumer: String)
        -> [HistoryTransaction]
    {
        transactions.filter { $0.number > position && $0.author.hasSameBytes(as: consumer) && covers(consumer) }
    }

    /// Those of some transactions that a consumer receives, after a position.
    func relevant(_ transactions: [HistoryTransaction], after position: Int64, to consumer: String)
        -> [HistoryTransaction]
    {
        // Transactions of one author often come together.
        var last: (author: String?, isDelivered: Bool)?
        return transactions.filter { transaction in
            guard transaction.number > position else { return false }
            let author = transaction.author
            if let last, last.author.hasSameBytes(as: author) { return last.isDelivered }
            let isDelivered = delivers(author, to: consumer)
            last = (author, isDelivered)
            return isDelivered
        }
    }

    /// The same for rules under which the same history is kept.
    var keeping: String {
        let takesUnlisted = deliversUnlisted || cleansUnlisted
        let listed = takesUnlisted ? [] : authors.union(included).sorted().map(\.text)
        return
            "\(takesUnlisted)\n\(mirroring.sorted().map(\.text).joined(separator: "\t"))\n\(listed.joined(separator: "\t"))"
    }
}
