internal import Glibc

/// Tells processes that share a state which of them serves which consumer of a store: two trackers of one author, or a tracker
/// and a daemon, would move each other's cursor.
///
/// It is a lock on one byte of the file `<store id>.lock` beside the state: the byte's offset tells the author and
/// the process. It ends with the process, however that ends.
final class ConsumerLease: Sendable {
    private let descriptor: Locked<Int32>

    /// - Throws: `HistoryError` with `.consumerInUse`, naming the process that has it.
    init(_ consumers: [String], of store: StoreID, in folder: String) throws(HistoryError) {
        let descriptor = open("\(folder)/\(store).lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        self.descriptor = Locked(descriptor)
        // A state that cannot be written is reported where it is opened.
        guard descriptor >= 0 else { return }
        for consumer in consumers {
            guard let other = Self.take(consumer, descriptor) else { continue }
            let process = other == getpid() ? "this process" : "process \(other)"
            throw HistoryError(
                .consumerInUse,
                "The consumer \"\(consumer)\" is already served by \(process), with the same state folder.",
                hint: "Stop that tracker or daemon, or give each program its own author.")
        }
    }

    /// - Returns: The process that has the consumer; nil where it is taken now.
    private static func take(_ consumer: String, _ descriptor: Int32) -> pid_t? {
        let slots = Int64(1) << StoreLease.processBits
        // What is left is less than the largest offset of a file.
        let start = Int64(FileLock.hash(consumer.utf8) >> 25) * slots
        let own = start + Int64(getpid()) & (slots - 1)
        guard FileLock.set(descriptor, F_WRLCK, own..<own + 1) else {
            return errno == EAGAIN || errno == EACCES ? getpid() : nil
        }
        // First taken, then looked for others: of two that come at once, at least one sees the other.
        return FileLock.other(descriptor, in: start..<start + slots).map { pid_t($0 - start) }
    }

    /// Lets others serve the consumers.
    func end() {
        descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return }
            // A child process that is just being started has the descriptor, too, and with it the locks.
            _ = FileLock.set(descriptor, F_UNLCK, 0..<Int64.max)
            close(descriptor)
            descriptor = -1
        }
    }

    deinit { end() }
}
