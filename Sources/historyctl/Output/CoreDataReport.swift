import HistoryConfiguration
import PersistentHistory

/// What `historyctl describe` prints for a store that Core Data or SwiftData writes.
struct CoreDataReport {
    let description: CoreDataDescription

    func write(to output: inout StandardOutput) throws {
        for (title, value) in facts { try output.writeLine(title + "  " + value) }
        try output.writeLine("")
        var table = TextTable(["ENTITY", "PARENT", "CHANGES", "BYTES", "PROPERTY", "TYPE", "PRESERVED"])
        try table.write(description.entities.flatMap { rows($0) }, to: &output)
        if description.footprint.months.isEmpty { return }
        try output.writeLine("")
        var months = TextTable(["MONTH", "TRANSACTIONS", "CHANGES", "BYTES"])
        try months.write(
            sortedMonths.map { [$0, "\($1.transactions)", "\($1.changes)", "\($1.bytes)"] }, to: &output)
    }

    private var sortedMonths: [(String, CoreDataFootprint.Share)] {
        description.footprint.months.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// What the history lacks, in words; nil if it is complete.
    private var missing: String? {
        let footprint = description.footprint
        var words = footprint.missing.map { "transactions \($0.lowerBound) to \($0.upperBound)" }
        if footprint.orphans > 0 { words.append("the transactions of \(footprint.orphans) changes") }
        return words.isEmpty ? nil : words.joined(separator: ", ")
    }

    private var facts: [(String, String)] {
        if !description.hasHistory {
            return Array(allFacts.prefix(3)) + [("History     ", "none: the app keeps none")]
        }
        return allFacts + (missing.map { [("Missing     ", $0)] } ?? [])
    }

    private var allFacts: [(String, String)] {
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
            ("Bytes       ", description.footprint.fileBytes.map { String($0) } ?? "unknown"),
        ]
    }

    private var model: String {
        let versions = description.modelVersions.joined(separator: ", ")
        let count = description.entities.count
        return (count == 1 ? "1 entity" : "\(count) entities")
            + (versions.isEmpty ? "" : ", version \(versions)")
    }

    /// The entity's own row, and one for each property.
    private func rows(_ entity: CoreDataDescription.Entity) -> [[String]] {
        let name = entity.name + (entity.model?.isAbstract == true ? " (abstract)" : "")
        let bytes = description.footprint.entities[entity.number]?.bytes ?? 0
        let first = [name, entity.parent ?? "", String(entity.changes), String(bytes), "", "", ""]
        let preserved = Set<BinaryText>(names: entity.preserved)
        return [first]
            + entity.properties.map { property in
                [
                    "", "", "", "", property.name, Self.type(property.kind),
                    preserved.contains(property.name) ? "yes" : "",
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
            json.member("source", "coreData")
            json.member("storeID", description.storeID.text)
            json.member("frameworkVersion", description.frameworkVersion)
            json.member("modelVersions", description.modelVersions)
            json.member("modelProblem", description.modelProblem)
            json.member("firstToken", description.firstToken?.description)
            json.member("lastToken", description.lastToken?.description)
            json.member("firstTime", description.firstTime?.description)
            json.member("lastTime", description.lastTime?.description)
            json.member("transactions", description.transactions)
            json.member("changes", description.changes)
            json.name("entities")
            json.array { json in
                for entity in description.entities {
                    Self.write(entity, description.footprint.entities[entity.number]?.bytes ?? 0, to: &json)
                }
            }
            writeFootprint(to: &json)
        }
        json.endLine()
        return json.bytes.array
    }

    private func writeFootprint(to json: inout JSONBytes) {
        let footprint = description.footprint
        json.member("hasHistory", description.hasHistory)
        json.name("bytes")
        if let bytes = footprint.fileBytes { json.integer(bytes) } else { json.null() }
        json.name("months")
        json.array { json in
            for (month, share) in sortedMonths {
                json.object { json in
                    json.member("month", month)
                    json.member("transactions", share.transactions)
                    json.member("changes", share.changes)
                    json.member("bytes", share.bytes)
                }
            }
        }
        json.name("missing")
        json.array { json in
            for numbers in footprint.missing {
                json.object { json in
                    json.member("first", numbers.lowerBound)
                    json.member("last", numbers.upperBound)
                }
            }
        }
        json.member("changesWithoutTransaction", footprint.orphans)
    }

    private static func write(_ entity: CoreDataDescription.Entity, _ bytes: Int64, to json: inout JSONBytes) {
        json.object { json in
            json.member("name", entity.name)
            json.member("number", entity.number)
            json.member("parent", entity.parent)
            json.member("abstract", entity.model?.isAbstract)
            json.member("preserved", entity.preserved)
            json.member("namesKnown", entity.namesAreKnown)
            json.member("changes", entity.changes)
            json.member("bytes", bytes)
            json.name("properties")
            json.array { json in for property in entity.properties { write(property, to: &json) } }
        }
    }

    private static func write(_ property: ObjectModel.Property, to json: inout JSONBytes) {
        json.object { json in
            json.member("name", property.name)
            json.name("kind")
            switch property.kind {
            case .attribute(let attribute):
                json.string("attribute")
                json.member("type", attribute.type.name)
                json.member("transient", attribute.isTransient)
                json.member("derived", attribute.isDerived)
                json.member("preserved", attribute.isPreserved)
            case .relationship(let relationship):
                json.string("relationship")
                json.member("destination", relationship.destination)
                json.member("toMany", relationship.isToMany)
                json.member("ordered", relationship.isOrdered)
                json.member("inverse", relationship.inverse?.name)
            case .fetchedProperty: json.string("fetchedProperty")
            case .other(let name): json.string(name)
            }
        }
    }
}
