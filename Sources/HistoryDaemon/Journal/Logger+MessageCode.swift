package import Logging
package import PersistentHistory

extension Logger {
    /// Logs a message that can trigger an operator's alert, at its own level.
    ///
    /// The text should stand by itself ("The hook "audit/new" …, 3 attempts failed."): the metadata's
    /// known keys (see ``JournalEntry``) become fields of the journal and are not repeated in the line.
    package func report(
        _ code: MessageCode, _ message: @autoclosure () -> Logger.Message,
        error: @autoclosure () -> (any Error)? = nil,
        metadata: @autoclosure () -> Logger.Metadata = [:],
        file: String = #fileID, function: String = #function, line: UInt = #line
    ) {
        log(
            level: code.level, message(), error: error(),
            metadata: metadata().merging(["event": .string(code.rawValue)]) { $1 },
            file: file, function: function, line: line)
    }
}
