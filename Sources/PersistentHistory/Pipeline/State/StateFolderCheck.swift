internal import Glibc

/// Checks whether a state folder can be used at all. Temporary problems, such as a full or read-only file
/// system, do not count: the daemon waits for their end.
enum StateFolderCheck {
    /// - Throws: `HistoryError` with `.stateUnusable` or `.stateNotPermitted`.
    static func check(_ folder: String) throws(HistoryError) {
        assertMayWait()
        var status = stat()
        guard stat(folder, &status) == 0 else {
            throw HistoryError(
                .stateUnusable,
                "The state folder \"\(folder)\" cannot be used: \(String(cString: strerror(errno))).",
                hint: "Create the folder, or pass another one.")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw HistoryError(
                .stateUnusable, "The state folder \"\(folder)\" is not a folder.", hint: "Pass another one.")
        }
        guard StateTrouble(folder: folder) != .notPermitted else {
            throw HistoryError(
                .stateNotPermitted, "The state folder \"\(folder)\" cannot be written by this user.",
                hint: StateTrouble.notPermitted.hint(at: folder))
        }
    }
}
