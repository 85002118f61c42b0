/// What happened to a store's files since the last signal was taken.
///
/// Signals that were not taken yet are united, so that a slow consumer finds one, however much
/// happened. They say where to look, not what is true now: a store can be back by the time that
/// its `disappeared` is read.
package struct StoreSignal: OptionSet, Sendable, Hashable, CustomStringConvertible {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The store, its `-wal` or its `-journal` was written, came or went: perhaps a commit.
    package static let changed = StoreSignal(rawValue: 1)
    /// There is a file under the path where there was none.
    package static let appeared = StoreSignal(rawValue: 2)
    /// There is another file under the path than before: open connections are to the old one.
    package static let replaced = StoreSignal(rawValue: 4)
    /// There is no file under the path any more: deleted, moved away, or unmounted.
    package static let disappeared = StoreSignal(rawValue: 8)
    /// The kernel dropped events, for this store perhaps any of the above: look at everything.
    package static let overflowed = StoreSignal(rawValue: 16)
    /// The `-wal` or the `-shm` was removed or moved away, or that may be so and would not be reported.
    package static let sideFilesInDoubt = StoreSignal(rawValue: 32)

    package var description: String {
        let names: [(StoreSignal, String)] = [
            (.changed, "changed"), (.appeared, "appeared"), (.replaced, "replaced"),
            (.disappeared, "disappeared"), (.overflowed, "overflowed"), (.sideFilesInDoubt, "sideFilesInDoubt"),
        ]
        return "[" + names.filter { contains($0.0) }.map(\.1).joined(separator: ", ") + "]"
    }
}
