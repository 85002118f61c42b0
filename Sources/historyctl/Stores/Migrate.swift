import ArgumentParser
import Glibc
import HistoryConfiguration
import PersistentHistory

struct Migrate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Run a migration tool on a tracked store.",
        discussion: """
            Removes the triggers, so that the tool can rebuild tables and drop columns, runs the command, and \
            creates the triggers again on the tables that exist then. Every consumer is notified of the \
            entities that may have changed unrecorded, unless nothing was written meanwhile. The daemon may \
            run, or be started meanwhile: it does not change the triggers until the command has ended.

            The exit status is the command's, or 128 plus the number of the signal that ended it. If the \
            command fails, the triggers are created again all the same. If the store does not exist or is not \
            tracked, only the command is run.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Option(help: "Remove only this table's triggers; other tables are still recorded. May be repeated.")
    var entity: [String] = []

    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("The command and its arguments, after --.", valueName: "command"))
    var command: [String] = []

    func validate() throws {
        if command.isEmpty {
            throw ValidationError("A command is missing: historyctl migrate STORE -- COMMAND…")
        }
    }

    func run() throws {
        // Blocked before other threads start, so that these inherit it.
        let signals = ForwardedSignals()
        var output = StandardOutput(descriptor: STDERR_FILENO)
        guard let migration = try begin() else {
            // Otherwise a mistyped path would go unnoticed.
            try output.writeLine("\(store) is not there or not tracked: there are no triggers to take out.")
            try output.flush()
            throw ExitCode(try ForegroundCommand(command, signals).run())
        }
        migration.inherit()
        let status: Result<Int32, any Error> = Result { try ForegroundCommand(command, signals).run() }
        let outcome = try migration.end()
        try outcome.write(to: &output)
        try output.flush()
        throw ExitCode(try status.get())
    }

    /// Nil if there are no triggers to remove.
    private func begin() throws -> Migration? {
        do {
            return try Migration(store, entities: entity.isEmpty ? nil : entity)
        } catch let error as HistoryError
            where entity.isEmpty && [.notTracked, .storeMissing].contains(error.code)
        {
            return nil
        }
    }
}
