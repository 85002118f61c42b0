import PersistentHistory

/// All stores: those of the configuration, and those of the files that templates find.
///
/// A name or a file belongs to one store, the first that claims it. A later one waits until the first is gone.
package struct StoreCatalog: Sendable {
    /// A file that a template found.
    package struct File: Sendable, Hashable {
        /// The index of the template.
        package let template: Int
        /// Relative to the template's folder.
        package let path: String

        package init(template: Int, path: String) {
            self.template = template
            self.path = path
        }
    }

    /// Why a file is not served.
    package enum Refusal: Sendable, Hashable {
        case name(TemplateFile.Refusal)
        /// Another file has the name already.
        case nameTaken(name: String, by: String)
        /// Another entry has the file already.
        case fileTaken(by: String)
    }

    package struct Change: Sendable {
        package var begun: [StoreConfiguration] = []
        /// The names of ended stores.
        package var ended: [String] = []
        package var refused: [(path: String, why: Refusal)] = []
    }

    private let templates: [StoreTemplate]
    private var served: [File: StoreConfiguration] = [:]
    /// The path that owns each name; the name that owns each path is in `paths`.
    private var owners: [String: String] = [:]
    private var paths: [String: String] = [:]
    /// The files that wait for a name or a path.
    private var waiting: [String: Set<File>] = [:]
    private var key: [File: String] = [:]

    package init(_ configuration: DaemonConfiguration) {
        templates = configuration.templates
        for store in configuration.stores {
            owners[store.name] = store.path
            paths[store.path] = store.name
        }
    }

    /// The stores of templates, in no order.
    package var stores: [StoreConfiguration] { Array(served.values) }

    /// Adds a file that is now a store.
    package mutating func appear(_ file: File) -> Change {
        var change = Change()
        guard served[file] == nil, key[file] == nil, templates.indices.contains(file.template) else {
            return change
        }
        let template = templates[file.template]
        let path = "\(template.folder)/\(file.path)"
        do throws(TemplateFile.Refusal) {
            let store = try template.store(of: TemplateFile(file.path))
            if let owner = paths[path] {
                wait(file, for: path)
                change.refused.append((path, .fileTaken(by: owner)))
            } else if let owner = owners[store.name] {
                wait(file, for: store.name)
                change.refused.append((path, .nameTaken(name: store.name, by: owner)))
            } else {
                owners[store.name] = path
                paths[path] = store.name
                served[file] = store
                change.begun.append(store)
            }
        } catch {
            change.refused.append((path, .name(error)))
        }
        return change
    }

    /// Removes a file that is no longer a store. A file that waited for its name takes its place.
    package mutating func disappear(_ file: File) -> Change {
        var change = Change()
        if let key = key.removeValue(forKey: file) {
            waiting[key]?.remove(file)
            if waiting[key]?.isEmpty == true { waiting[key] = nil }
        }
        guard let store = served.removeValue(forKey: file) else { return change }
        owners[store.name] = nil
        paths[store.path] = nil
        change.ended.append(store.name)
        for key in [store.path, store.name] {
            for file in (waiting.removeValue(forKey: key) ?? []).sorted(by: Self.isBefore) {
                self.key[file] = nil
                let next = appear(file)
                change.begun += next.begun
                // It is known to wait.
            }
        }
        return change
    }

    private mutating func wait(_ file: File, for key: String) {
        waiting[key, default: []].insert(file)
        self.key[file] = key
    }

    private static func isBefore(_ a: File, _ b: File) -> Bool {
        (a.template, BinaryText(a.path)) < (b.template, BinaryText(b.path))
    }
}
