@testable import PersistentHistory

/// Judges what feeds are sent of transactions: what became of each object, by the rows before and after.
struct FeedJudge {
    typealias Object = ObjectIDNotification.Object

    private let oracle: Oracle
    private var effects: [ObjectKey: ObjectIDNotification.Effect] = [:]
    private var problem: String?

    /// - Returns: What is wrong; nil where nothing is.
    static func judge(
        _ transactions: [HistoryTransaction], _ oracle: Oracle, before: Snapshot, after: Snapshot
    ) -> String? {
        var judge = FeedJudge(oracle: oracle)
        for transaction in transactions { judge.add(transaction) }
        return judge.problem ?? judge.compare(before, after)
    }

    private init(oracle: Oracle) { self.oracle = oracle }

    private mutating func add(_ transaction: HistoryTransaction) {
        var seen: Set<ObjectKey> = []
        for object in ObjectIDNotification(transaction).objects {
            let key = oracle.key(object.entity, object.objectID)
            if Self.isAmbiguous(key) { continue }
            if !seen.insert(key).inserted { problem = "a feed names \(key) twice" }
            if !Self.isReadBack(object, transaction.token.store) {
                problem = "the address of \(key) is another object's"
            }
            switch (effects[key], object.effect) {
            case (nil, let effect): effects[key] = effect
            case (.inserted, .deleted): effects[key] = nil
            case (.inserted, .updated): break
            case (.updated, .updated), (.deleted, .inserted): effects[key] = .updated
            case (.updated, .deleted): effects[key] = .deleted
            case (let old?, let new): problem = "to a feed \(key) is \(old), and then \(new)"
            }
        }
    }

    /// The least integer and the real of its value are one row to SQLite, and two objects to a feed.
    private static func isAmbiguous(_ key: ObjectKey) -> Bool { key.values.contains(.integer(.min)) }

    private static func isReadBack(_ object: Object, _ store: StoreID) -> Bool {
        let text = HistoryJSON.objectIDURL(of: object.objectID, in: object.entity, store: store)
        guard let url = ObjectIDURL(text) else { return false }
        return url.store == store && BinaryText(url.entityName) == BinaryText(object.entity.name)
            && url.objectID(in: object.entity) == object.objectID
    }

    private func compare(_ before: Snapshot, _ after: Snapshot) -> String? {
        let keys = Set(before.rows.keys).union(after.rows.keys).union(effects.keys)
        for key in keys where !Self.isAmbiguous(key) {
            let (old, new) = (before.rows[key], after.rows[key])
            let isRight =
                switch effects[key] {
                // Put there again amid a foreign key's action on its delete, it is recorded as inserted first.
                case .inserted: (old == nil || oracle.cascades && oracle.hasTriggers) && new != nil
                case .deleted: old != nil && new == nil
                case .updated: old != nil && new != nil
                case nil: oracle.same(old, new, of: key)
                }
            if isRight { continue }
            let effect = effects[key].map { "\($0)" } ?? "nothing"
            return "\(key): a feed says \(effect), and it was \(oracle.text(old)) and is \(oracle.text(new))"
        }
        return nil
    }

    /// The same of large transactions, which are read part by part.
    static func compareParts(
        of transactions: [HistoryTransaction], after position: Int64, _ reader: HistoryReader
    ) throws -> String? {
        var end = position
        var batch: HistoryBatch
        repeat {
            batch = try reader.outlinedBatch(after: end)
            end = batch.end
            for large in batch.transactions where large.outline != nil {
                guard let whole = transactions.first(where: { $0.token == large.token }) else { continue }
                let (said, meant) = (try objects(of: large, reader), ObjectIDNotification(whole).objects)
                if said != meant { return "in parts, a feed is sent \(text(said)), and not \(text(meant))" }
            }
        } while !batch.isLast
        return nil
    }

    private static func text(_ objects: [Object]) -> String {
        objects.map { "\($0.entity.name) \($0.objectID.values.map { Cell($0) }) \($0.effect)" }
            .joined(separator: ", ")
    }

    private static func objects(of large: HistoryTransaction, _ reader: HistoryReader) throws -> [Object] {
        let effects = try NetEffects(of: large, ChangeFilter(), reading: reader)
        var objects: [Object] = []
        var position: Int64 = 0
        while objects.count < effects.count {
            let portion = try effects.portion(after: position)
            if portion.objects.isEmpty { break }
            objects += portion.objects
            position = portion.end
        }
        return objects
    }
}
