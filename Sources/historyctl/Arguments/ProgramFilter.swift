import ArgumentParser
import PersistentHistory

/// Selects transactions by program, and updates by property.
struct ProgramFilter: ParsableArguments {
    @Option(
        help: "Only transactions of this process: its name in a store of Core Data's, otherwise its number.")
    var process: [String] = []

    @Option(help: "Only transactions of the app with this bundle identifier, which a store of Core Data's has.")
    var bundle: [String] = []

    @Option(help: "Only transactions of this context.")
    var context: [String] = []

    @Option(help: "Only updates that changed this property. Updates of which it is not known are left out.")
    var property: [String] = []

    var isSelective: Bool { !(process + bundle + context + property).isEmpty }

    func apply(to filter: inout HistoryFilter) {
        if !process.isEmpty { filter.processes = Set(names: process) }
        if !bundle.isEmpty { filter.bundles = Set(names: bundle) }
        if !context.isEmpty { filter.contexts = Set(names: context) }
        if !property.isEmpty { filter.properties = Set(names: property) }
    }
}

/// `--label`: an attribute that identifies the object of a change.
struct LabelArgument {
    let entity: String
    let property: String

    init(_ text: String) throws {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else {
            throw ValidationError("A label has the form ENTITY.ATTRIBUTE, such as Note.title.")
        }
        (entity, property) = (String(parts[0]), String(parts[1]))
    }

    func labels(_ reader: any HistoryReading) throws -> ObjectLabels {
        guard let reader = reader as? CoreDataReader else {
            throw ValidationError("--label is for stores that Core Data or SwiftData writes.")
        }
        return try ObjectLabels(reader, entity: entity, property: property)
    }
}
