import FoundationEssentials
import HistoryControl
import Logging
import PersistentHistory

/// The pauses that an operator wants to keep over a restart: a file in the state folder.
///
/// It uses the names of the configuration, so that it also covers a store that cannot be opened yet.
final class KeptPauses: Sendable {
    struct Pause: Codable, Hashable, Sendable {
        let store: String
        /// Nil for the whole store.
        var consumer: String?
    }

    private struct Content: Codable {
        var version = 1
        var paused: [Pause]
    }

    private let path: String
    private let pauses = Locked<Set<Pause>>([])

    init(stateFolder: String) { path = "\(stateFolder)/paused.json" }

    /// Reads the kept pauses. A file in a foreign format is moved aside and reported.
    ///
    /// - Throws: `HistoryError` where it cannot be read: what is paused must not be delivered by mistake.
    func load(_ logger: Logger) throws {
        let bytes: [UInt8]?
        do throws(SystemError) {
            bytes = try AtomicFile.read(path)
        } catch {
            throw HistoryError.stateFile(path, "The kept pauses in \"\(path)\" cannot be read", error)
        }
        guard let bytes else { return }
        do {
            let content = try ControlJSON.read(Content.self, from: bytes)
            pauses.withLock { $0 = Set(content.paused) }
        } catch {
            let newPath = try DamagedFile.moveAside(path, at: .now)
            logger.report(
                .stateCorrupt,
                "The kept pauses in \"\(path)\" are damaged. The file was moved to \"\(newPath)\", and nothing is paused until that is asked for again."
            )
        }
    }

    func contains(_ pause: Pause) -> Bool { pauses.withLock { $0.contains(pause) } }

    /// The consumers of a store that are paused by themselves.
    func consumers(of store: String) -> [String] {
        pauses.withLock { $0.filter { $0.store == store }.compactMap(\.consumer).sorted() }
    }

    /// Keeps pauses, or removes them. Must not be called concurrently.
    ///
    /// - Throws: `ControlError`; nothing has changed then.
    func set(_ changed: [Pause], kept: Bool) throws(ControlError) {
        let old = pauses.withLock { $0 }
        let new = kept ? old.union(changed) : old.subtracting(changed)
        if new == old { return }
        do {
            let sorted = new.sorted { ($0.store, $0.consumer ?? "") < ($1.store, $1.consumer ?? "") }
            try AtomicFile.write(try ControlJSON.bytes(Content(paused: sorted)), to: path)
        } catch {
            throw ControlError(
                .failed,
                "What is paused cannot be written to \"\(path)\": \(error). A restart of the daemon finds it as it was kept before."
            )
        }
        pauses.withLock { $0 = new }
    }
}
