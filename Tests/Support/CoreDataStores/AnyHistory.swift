extension GeneratedStore {
    /// Writes transactions of all kinds.
    public func writeAny(_ count: Int, most: Int = 6, _ random: inout some RandomNumberGenerator) throws {
        let origins = [
            Origin(), Origin(author: "import", context: "background"),
            Origin(author: "NSCloudKitMirroringDelegate.import", process: "appd", bundleID: nil),
            Origin(author: "Grüße", context: nil, process: nil, bundleID: "org.example.widget"),
        ]
        for _ in 0..<count {
            var changes: [Change] = []
            var objects: Set<String> = []
            for _ in 0..<Int.random(in: 0...most, using: &random) {
                guard let entity = model.entities.randomElement(using: &random)?.name else { continue }
                let object = Int64.random(in: 1...50, using: &random)
                let root = model.line(of: entity).first?.name ?? ""
                // At most one change for each object and transaction.
                guard objects.insert("\(root)/\(object)").inserted else { continue }
                changes.append(Change(entity, object, anyOperation(entity, &random)))
            }
            // A clock may be set back.
            let time = 7e8 + (Double.random(in: -1e6...1e6, using: &random) * 1e6).rounded() / 1e6
            try commit(origins.randomElement(using: &random) ?? Origin(), time: time, changes)
        }
    }

    private func anyOperation(_ entity: String, _ random: inout some RandomNumberGenerator) -> Operation {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return .insert
        case 1:
            var kept: [String: StoredValue] = [:]
            for attribute in preserved(entity) where Bool.random(using: &random) {
                kept[attribute.name] = .any(attribute.type, &random)
            }
            return .delete(kept)
        default:
            var properties: Set<String> = []
            for name in Set(layouts[entity]?.slots ?? []).sorted()
            where Int.random(in: 0..<4, using: &random) == 0 {
                properties.insert(name)
            }
            return .update(properties)
        }
    }
}
