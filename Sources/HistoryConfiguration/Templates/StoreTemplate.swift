package import PersistentHistory

/// An entry of `stores` with a folder: each matching file in it is a store.
package struct StoreTemplate: Sendable, Hashable {
    /// Absolute.
    package var folder: String
    /// For file names.
    package var pattern: NamePattern
    /// Whether subfolders count, too.
    package var isRecursive = false
    /// The maximum number of files to follow: stores, and files that may become stores.
    package var maximumStores = Self.defaultMaximum
    /// How long to keep the state of a store that is gone; nil for the same time as for any store.
    package var keepState: Duration?
    /// Whether the metrics list each of its stores, and not only their sum.
    package var hasMetricsPerStore = false
    /// One of its stores, with placeholders in its name, its replicas' paths and their groups. It has no path.
    package var prototype: StoreConfiguration

    package static let defaultMaximum = 10_000
    package static let largestMaximum = 1_000_000

    /// The template's name, with its placeholders.
    package var name: String { prototype.name }

    /// A pattern that matches the names of its stores.
    package var namePattern: NamePattern { TemplateText(name).pattern }

    /// Whether a name or a pattern may refer to one of its stores.
    package func mayHave(_ name: String) -> Bool { namePattern.intersects(NamePattern(name)) }

    /// Whether both find the same files.
    package func watchesSameFiles(as other: StoreTemplate) -> Bool {
        folder.hasSameBytes(as: other.folder) && pattern == other.pattern && isRecursive == other.isRecursive
            && maximumStores == other.maximumStores
    }

    /// Whether a file is one of its stores.
    ///
    /// - Parameter path: Absolute.
    package func includes(_ path: String) -> Bool {
        guard path.utf8.starts(with: "\(folder)/".utf8) else { return false }
        let below = String(decoding: path.utf8.dropFirst(folder.utf8.count + 1), as: UTF8.self)
        return (try? TemplateFile(below)).map {
            (isRecursive || !$0.isInFolder) && pattern.matches($0.fileName)
        }
            ?? false
    }

    /// The store for a file.
    ///
    /// - Throws: `TemplateFile.Refusal` where its name would be too long.
    package func store(of file: TemplateFile) throws(TemplateFile.Refusal) -> StoreConfiguration {
        var store = prototype
        store.name = TemplateText(prototype.name).text(for: file)
        guard store.name.utf8.count <= DocumentNode.longestName else { throw .tooLong }
        store.path = "\(folder)/\(file.path)"
        store.template = name
        for author in store.authors.indices {
            for context in store.authors[author].contexts.indices {
                guard case .replica(let path, let access) = store.authors[author].contexts[context].kind else {
                    continue
                }
                store.authors[author].contexts[context].kind = .replica(
                    path: TemplateText(path).text(for: file),
                    access: access.map { access in
                        ReplicaAccess(
                            mode: access.mode, group: access.group.map { TemplateText($0).text(for: file) })
                    })
            }
        }
        return store
    }
}

/// A text with `{name}` and `{path}` in it.
struct TemplateText: Sendable, Hashable {
    private enum Part: Hashable {
        case text(String)
        case name, path
    }

    private var parts: [Part] = []
    /// Text in braces that is not a placeholder.
    private(set) var unknown: [String] = []

    init(_ text: String) {
        var rest = text[...]
        while let start = rest.firstIndex(of: "{"), let end = rest[start...].firstIndex(of: "}") {
            parts.append(.text(String(rest[..<start])))
            switch rest[rest.index(after: start)..<end] {
            case "name": parts.append(.name)
            case "path": parts.append(.path)
            default:
                unknown.append(String(rest[start...end]))
                parts.append(.text(String(rest[start...end])))
            }
            rest = rest[rest.index(after: end)...]
        }
        parts.append(.text(String(rest)))
    }

    /// Whether different files give different texts, except for files of the same name.
    var hasPlaceholder: Bool { parts.contains { $0 == .name || $0 == .path } }

    /// The text before the first placeholder.
    var beginning: String {
        var beginning = ""
        for part in parts {
            guard case .text(let text) = part else { break }
            beginning += text
        }
        return beginning
    }

    func text(for file: TemplateFile) -> String {
        parts.map { part in
            switch part {
            case .text(let text): text
            case .name: file.name
            case .path: file.path
            }
        }.joined()
    }

    /// The pattern with a star for each placeholder.
    var pattern: NamePattern {
        NamePattern(
            parts.map { part in
                if case .text(let text) = part { text } else { "*" }
            }.joined())
    }
}
