internal import CSQLiteHistory

/// What becomes of this process when somebody makes a file shorter that SQLite has mapped.
package enum MappedFiles {
    /// From here on that is `HistoryError` with `.storeInterrupted` where the file is used, instead of a signal
    /// (SIGBUS) that ends the process. For programs: a library leaves signals to the program.
    package static func surviveLoss() { history_survive_lost_mappings() }
}
