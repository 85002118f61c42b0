/// Writer probes of stores to which this process may have connections of its own: to close a probe
/// would drop their locks, and whether there are any is not certain (see
/// `WriterProbe.close`). They are kept instead, and used again.
///
/// So a program that begins and ends to observe a store many times, while it works with it, needs
/// no more descriptors each time.
final class WriterProbes: Sendable {
    static let shared = WriterProbes()

    private let idle = Locked<[FileID: [WriterProbe]]>([:])

    /// A probe of the store: one that was kept, or a new one.
    ///
    /// - Throws: `ObserverError`, as `WriterProbe` does.
    func take(_ path: String) throws(ObserverError) -> WriterProbe {
        if let file = FileID(of: path), let probe = idle.withLock({ $0[file]?.popLast() }) { return probe }
        return try WriterProbe(storePath: path)
    }

    func keep(_ probe: WriterProbe) {
        guard let file = probe.file else { return }
        idle.withLock { idle in
            idle[file, default: []].append(probe)
            // A deleted file would keep its space, and its locks are not needed again.
            for (file, probes) in idle where probes.contains(where: \.isOfDeletedFile) {
                idle[file] = probes.filter { !$0.isClosedNow() }
            }
        }
    }
}

extension WriterProbe {
    /// Closes it, unless this process is seen to hold locks.
    fileprivate func isClosedNow() -> Bool {
        do throws(ObserverError) {
            try close()
            return true
        } catch {
            return false
        }
    }
}
