import PersistentHistory

/// What `historyctl describe` prints of a store that Core Data or SwiftData writes.
struct CoreDataReport {
    let description: CoreDataDescription

    func write(to output: inout StandardOutput) throws {
        for (title, value) in facts { try output.writeLine(title + "  " + value) }
        try output.writeLine("")
        var table = TextTable(["ENTITY", "PARENT", "CHANGES", "PROPERTY", "TYPE", "PRESERVED"])
        for entity in description.entities { try table.write(rows(entity), to: &output) }
    }

    private var facts: [(String, String)] {
        let range = { (token: HistoryToken?, time: HistoryTimestamp?) in
            [token?.description, time.map { "(\($0))" }].compactMap(\.self).joined(separator: " ")
        }
        return [
            ("Store id    ", description.storeID.text),
            ("Written by  ", "Core Data" + (description.frameworkVersion.map { ", framework \($0)" } ?? "")),
            ("Model       ", description.modelProblem.map { "unknown: \($0)" } ?? model),
            (
                "First token ",
                description.firstToken == nil ? "none" : range(description.firstToken, description.firstTime)
            ),
            (
                "Last token  ",
                description.lastToken == nil ? "none" : range(description.lastToken, description.lastTime)
            ),
            ("Transactions", String(description.transactions)),
            ("Changes     ", String(description.changes)),
        ]
    }

    private var model: String {
        let versions = description.modelVersions.joined(separator: ", ")
        let count = description.entities.count
        return (count == 1 ? "1 entity" : "\(count) entities")
            + (versions.isEmpty ? "" : ", version \(versions)")
    }

    /// The entity's own line, and one for each property.
    private func rows(_ entity: CoreDataDescription.Entity) -> [[String]] {
        let name = entity.name + (entity.model?.isAbstract == true ? " (abstract)" : "")
        let first = [name, entity.parent ?? "", String(entity.changes), "", "", ""]
        return [first]
            + entity.properties.map { property in
                [
                    "", "", "", property.name, Self.type(property.kind),
                    entity.preserved.contains(property.name) ? "yes" : "",
                ]
            }
    }

    static func type(_ kind: ObjectModel.Property.Kind) -> String {
        switch kind {
        case .attribute(let attribute):
            attribute.type.name + (attribute.isTransient ? ", transient" : "")
                + (attribute.isDerived ? ", derived" : "")
        case .relationship(let relationship):
            (relationship.isToMany ? relationship.isOrdered ? "ordered to many " : "to many " : "to one ")
                + (relationship.destination ?? "unknown")
                + (relationship.inverse.map { ", inverse \($0.name)" } ?? "")
        case .fetchedProperty: "fetched property"
        case .other(let name): name
        }
    }

    // MARK: JSON

    var json: [UInt8] {
        var json = JSONBytes()
        json.object { json in
            json.name("source")
            json.string("coreData")
            json.name("storeID")
            json.string(description.storeID.text)
            json.name("frameworkVersion")
            if let version = description.frameworkVersion { json.integer(version) } else { json.null() }
            json.name("modelVersions")
            json.array { json in for version in description.modelVersions { json.string(version) } }
            json.name("modelProblem")
            json.string(description.modelProblem)
            json.name("firstToken")
            json.string(description.firstToken?.description)
            json.name("lastToken")
            json.string(description.lastToken?.description)
            json.name("firstTime")
            json.string(description.firstTime?.description)
            json.name("lastTime")
            json.string(description.lastTime?.description)
            json.name("transactions")
            json.integer(description.transactions)
            json.name("changes")
            json.integer(description.changes)
            json.name("entities")
            json.array { json in for entity in description.entities { Self.write(entity, to: &json) } }
        }
        json.endLine()
        return json.bytes.array
    }

    private static func write(_ entity: CoreDataDescription.Entity, to json: inout JSONBytes) {
        json.object { json in
            json.name("name")
            json.string(entity.name)
            json.name("number")
            json.integer(entity.number)
            json.name("parent")
            json.string(entity.parent)
            json.name("abstract")
            if let model = entity.model { json.bool(model.isAbstract) } else { json.null() }
            json.name("preserved")
            json.array { json in for name in entity.preserved { json.string(name) } }
            json.name("namesKnown")
            json.bool(entity.namesAreKnown)
            json.name("changes")
            json.integer(entity.changes)
            json.name("properties")
            json.array { json in for property in entity.properties { write(property, to: &json) } }
        }
    }

    private static func write(_ property: ObjectModel.Property, to json: inout JSONBytes) {
        json.object { json in
            json.name("name")
            json.string(property.name)
            json.name("kind")
            switch property.kind {
            case .attribute(let attribute):
                json.string("attribute")
                json.name("type")
                json.string(attribute.type.name)
                json.name("transient")
                json.bool(attribute.isTransient)
                json.name("derived")
                json.bool(attribute.isDerived)
                json.name("preserved")
                json.bool(attribute.isPreserved)
            case .relationship(let relationship):
                json.string("relationship")
                json.name("destination")
                json.string(relationship.destination)
                json.name("toMany")
                json.bool(relationship.isToMany)
                json.name("ordered")
                json.bool(relationship.isOrdered)
                json.name("inverse")
                json.string(relationship.inverse?.name)
            case .fetchedProperty: json.string("fetchedProperty")
            case .other(let name): json.string(name)
            }
        }
    }
}
