internal import CSQLiteHistory

/// The memory of a process's connections.
package enum ProcessMemory {
    /// Makes SQLite allocate only what each connection needs, for a program that may have thousands. Call
    /// it before the first connection is opened.
    package static func keepSmall() {
        // Refused only if SQLite is in use already. Each connection then takes 130 KB at once.
        _ = history_allocate_singly()
    }
}

/// The effect on this process when another one truncates a file that SQLite has mapped.
package enum MappedFiles {
    /// Turns a truncated mapping into `HistoryError` with `.storeInterrupted` at the file's use, instead
    /// of a signal (SIGBUS) that ends the process. For programs only: a library leaves signals to its
    /// program.
    package static func surviveLoss() { history_survive_lost_mappings() }
}
