internal import CSQLiteHistory

/// How much memory the connections of a process take.
package enum ProcessMemory {
    /// Has SQLite allocate what each connection needs and no more, for a program that may have thousands. To be
    /// called before the first is opened.
    package static func keepSmall() {
        // Refused only where SQLite is at work already: then each connection takes 130 KB at once.
        _ = history_allocate_singly()
    }
}

/// What becomes of this process when somebody makes a file shorter that SQLite has mapped.
package enum MappedFiles {
    /// From here on that is `HistoryError` with `.storeInterrupted` where the file is used, instead of a signal
    /// (SIGBUS) that ends the process. For programs: a library leaves signals to the program.
    package static func surviveLoss() { history_survive_lost_mappings() }
}
