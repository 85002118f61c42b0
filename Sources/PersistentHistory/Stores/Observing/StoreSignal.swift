/// What happened to a store's files since the last signal was taken.
///
/// Signals that were not taken yet are united, so a slow consumer finds one signal, however much
/// happened. A signal says where to look, not what is true now: a store may exist again by the time its
/// `disappeared` is read.
package struct StoreSignal: OptionSet, Sendable, Hashable, CustomStringConvertible {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The store, its `-wal` or its `-journal` was written, created or removed: perhaps a commit.
    package static let changed = StoreSignal(rawValue: 1)
    /// A file exists at the path where there was none.
    package static let appeared = StoreSignal(rawValue: 2)
    /// Another file is at the path: open connections belong to the old one.
    package static let replaced = StoreSignal(rawValue: 4)
    /// There is no file at the path any more: it was deleted or moved, or its file system unmounted.
    package static let disappeared = StoreSignal(rawValue: 8)
    /// The kernel dropped events, perhaps any of the above for this store: check everything.
    package static let overflowed = StoreSignal(rawValue: 16)
    /// The `-wal` or the `-shm` was removed or moved, or may have been without a report.
    package static let sideFilesInDoubt = StoreSignal(rawValue: 32)

    package var description: String {
        let names: [(StoreSignal, String)] = [
            (.changed, "changed"), (.appeared, "appeared"), (.replaced, "replaced"),
            (.disappeared, "disappeared"), (.overflowed, "overflowed"), (.sideFilesInDoubt, "sideFilesInDoubt"),
        ]
        return "[" + names.filter { contains($0.0) }.map(\.1).joined(separator: ", ") + "]"
    }
}
