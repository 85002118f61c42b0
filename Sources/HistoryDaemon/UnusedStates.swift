import FoundationEssentials
import Glibc
import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory

/// The states of stores that were replaced or are no longer configured. They are kept for a while, because the
/// stores may come back, and are then removed.
struct UnusedStates {
    /// How long a state without a store is kept.
    static let age: Duration = .seconds(90 * 86_400)

    /// All files of one store's state.
    struct State: Equatable {
        let id: String
        /// File names in the folder.
        var files: [String] = []
        /// When one of them was last changed, in seconds since 1970.
        var changedAt: Int = 0
        var store: String?
    }

    /// Returns the states to remove.
    ///
    /// - Parameters:
    ///   - served: The ids of stores that are open.
    ///   - waiting: The paths of stores that are not open: their ids are not known yet.
    ///   - now: In seconds since 1970.
    ///   - age: How long the state of the store at a path is kept; nil keeps it forever.
    static func expired(
        _ states: [State], served: Set<String>, waiting: Set<String>, now: Int,
        age: (String) -> Duration? = { _ in Self.age }
    ) -> [State] {
        states.filter { state in
            let age = state.store.map(age) ?? Self.age
            return !served.contains(state.id)
                && age.map { now - state.changedAt > Int($0.components.seconds) } ?? false
                && !(state.store.map { waiting.contains($0) } ?? false)
        }
    }

    /// Restarts the time for which the state of a store is kept: the store is gone as of now.
    static func note(_ store: String, in folder: String) {
        // Fails if the store has no state.
        utimensat(AT_FDCWD, "\(folder)/\(store).store", nil, 0)
    }

    /// Finds the states in a folder.
    ///
    /// - Throws: An error of the file system.
    static func find(in folder: String) throws -> [State] {
        var states: [String: State] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            guard let id = id(ofStateWith: name) else { continue }
            let attributes = try FileManager.default.attributesOfItem(atPath: "\(folder)/\(name)")
            let changedAt = (attributes[.modificationDate] as? Date).map { Int($0.timeIntervalSince1970) } ?? 0
            var state = states[id] ?? State(id: id)
            state.files.append(name)
            state.changedAt = max(state.changedAt, changedAt)
            if name.hasSuffix(".store") {
                state.store = try AtomicFile.read("\(folder)/\(name)").map {
                    String(decoding: $0, as: UTF8.self)
                }
            }
            states[id] = state
        }
        return states.values.sorted { $0.id < $1.id }
    }

    /// The stores below a folder, by their relative paths, that have a state here. None if that cannot be read.
    static func stores(under folder: String, in stateFolder: String) -> Set<String> {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: stateFolder)) ?? []
        return Set(
            names.filter { $0.hasSuffix(".store") && id(ofStateWith: $0) != nil }.compactMap { name in
                let note = (try? AtomicFile.read("\(stateFolder)/\(name)")).flatMap(\.self)
                let path = String(decoding: note ?? [], as: UTF8.self)
                return path.hasPrefix("\(folder)/") ? String(path.dropFirst(folder.count + 1)) : nil
            })
    }

    /// Removes expired states, and reports each.
    ///
    /// - Throws: An error of the file system.
    fileprivate static func remove(
        in folder: String, served: Set<String>, waiting: Set<String>, templates: [StoreTemplate],
        _ logger: Logger
    ) throws {
        /// A folder whose disk is not mounted has not lost its stores.
        let missing = Set(templates.map(\.folder).filter { access($0, F_OK) != 0 })
        let states = try find(in: folder)
        let old = expired(states, served: served, waiting: waiting, now: time(nil)) { path in
            guard let template = templates.first(where: { $0.includes(path) }) else { return age }
            return missing.contains(template.folder) ? nil : template.keepState ?? age
        }
        for state in old {
            for file in state.files { unlink("\(folder)/\(file)") }
            let days = (time(nil) - state.changedAt) / 86_400
            let path = state.store.map { " at \"\($0)\"" } ?? ""
            logger.report(
                .stateRemoved,
                "Removed the state of store \(state.id)\(path), which was not used for \(days, "day").")
        }
    }

    /// The id of the store that a state file belongs to; nil for other files. A damaged state file belongs to
    /// no store.
    private static func id(ofStateWith name: String) -> String? {
        guard let dot = name.firstIndex(of: "."), UUID(uuidString: String(name[..<dot])) != nil else {
            return nil
        }
        let suffix = name[dot...]
        if suffix.hasPrefix(".sqlite.damaged-") { return name }
        let suffixes: Set<Substring> = [".sqlite", ".sqlite-wal", ".sqlite-shm", ".store", ".lock"]
        return suffixes.contains(suffix) ? String(name[..<dot]) : nil
    }
}

extension Engine {
    /// How long a start or a reload waits for the disk of unused states, before it continues without them.
    private static let removalTimeout: Duration = .seconds(1)

    /// How often to look for unused states: often enough for the template that keeps them for the shortest
    /// time.
    var stateInterval: Duration {
        let shortest = loaded.configuration.templates.compactMap(\.keepState).min() ?? UnusedStates.age
        return min(max(shortest / 4, .seconds(1)), .seconds(6 * 3600))
    }

    /// Removes the states that no store has used for a long time, and reports each.
    func removeUnusedStates() async {
        let (folder, logger) = (dependencies.stateFolder, dependencies.logger)
        var served: Set<String> = []
        var waiting: Set<String> = []
        for store in stores {
            if let id = store.control.storeID {
                served.insert(id.description)
            } else {
                waiting.insert(store.configuration.path)
            }
        }
        let templates = loaded.configuration.templates
        do {
            // A removal that hangs is left to the next reload, and does not block more and more threads.
            let isDone: ()? = try await unusedStates.perform(within: Self.removalTimeout) { [served, waiting] in
                try UnusedStates.remove(
                    in: folder, served: served, waiting: waiting, templates: templates, logger)
            }
            if isDone == nil {
                logger.notice("The disk of the state folder \"\(folder)\" does not answer: unused states stay.")
            }
        } catch {
            logger.debug("The state folder could not be listed: \(error)")
        }
    }
}
