import Foundation
import Logging
import PersistentHistory

/// The file with a publisher's memory, in the state folder.
package struct MemoryFile: Sendable {
    let path: String

    /// - Parameter folder: Nil for no memory.
    package init?(in folder: String?, of name: String) {
        guard let folder else { return nil }
        path = "\(folder)/\(name).epoch.json"
    }

    func read(_ logger: Logger) -> PublisherMemory? {
        do {
            guard let bytes = try AtomicFile.read(path, most: 1 << 16) else { return nil }
            return try JSONDecoder().decode(PublisherMemory.self, from: Data(bytes))
        } catch {
            logger.warning("\"\(path)\" cannot be read, and is written again: \(error).")
            return nil
        }
    }

    func write(_ memory: PublisherMemory, _ logger: Logger) {
        do {
            try AtomicFile.write([UInt8](JSONEncoder().encode(memory)), to: path)
        } catch {
            // Even without the file, the clock makes a new epoch later than this one.
            logger.warning("\"\(path)\" cannot be written: \(error).")
        }
    }
}
