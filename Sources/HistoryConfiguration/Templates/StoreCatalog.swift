import PersistentHistory

/// The stores that there are: those of the configuration, and those of the files that templates find.
///
/// A name and a file are one store's: the first one's that was there. What comes later waits until the other is gone.
package struct StoreCatalog: Sendable {
    /// A file that a template found.
    package struct File: Sendable, Hashable {
        /// The index of the template.
        package let template: Int
        /// Below its folder.
        package let path: String

        package init(template: Int, path: String) {
            self.template = template
            self.path = path
        }
    }

    /// Why a file is not served.
    package enum Refusal: Sendable, Hashable {
        case name(TemplateFile.Refusal)
        /// Another file has the name.
        case nameTaken(name: String, by: String)
        /// Another entry has the file.
        case fileTaken(by: String)
    }

    package struct Change: Sendable {
        package var begun: [StoreConfiguration] = []
        /// Names.
        package var ended: [String] = []
        package var refused: [(path: String, why: Refusal)] = []
    }

    private let templates: [StoreTemplate]
    private var served: [File: StoreConfiguration] = [:]
    /// Who has each name and each path.
    private var owners: [String: String] = [:]
    private var paths: [String: String] = [:]
    /// What waits for a name or for a path.
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

    /// A file is a store now.
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

    /// A file is a store no more. What waited for its name comes in its place.
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
                // That it waits is known.
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
