import ArgumentParser
import Glibc
import HistoryConfiguration
import HistoryControl
import PersistentHistory

@main
struct Historyctl: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "historyctl",
        abstract: "Tracks SQLite stores, reads their history, and controls the daemon.",
        discussion: """
            Exit statuses are those of sysexits(3): 64 wrong usage; 65 bad data (a damaged store, a token of \
            another store, SQL that fails); 66 no such store, hook, consumer or other name; 69 store not \
            tracked, token expired, or daemon not running; 70 internal error; 74 input or output error; \
            75 temporary failure (a lock, a timeout, a daemon that does not answer, a hook that fails); 77 not permitted; \
            78 configuration or manifest refused.
            """,
        version: HistoryVersion.current,
        groupedSubcommands: [
            CommandGroup(
                name: "Stores (no daemon needed)",
                subcommands: [
                    Track.self, Untrack.self, Migrate.self, Describe.self, Exec.self, History.self, Setup.self,
                ]),
            CommandGroup(
                name: "Daemon",
                subcommands: [
                    Status.self, Health.self, Metrics.self, Doctor.self, Top.self, Consumers.self, Hooks.self,
                    Plugins.self, Reload.self, Pause.self,
                    Resume.self, Run.self,
                    Wait.self, Follow.self, Tail.self, Feed.self, Clean.self, Resync.self, DeadLetters.self,
                    LogLevelVerb.self,
                ]),
        ])

    func run() throws { throw ValidationError("A command is missing.") }

    static func main() async {
        // If the reader ends early, as `head` does, this program ends silently.
        InheritedSignals.reset(endsAtBrokenPipe: true)
        MappedFiles.surviveLoss()
        do {
            // Only asynchronous parsing starts threads, and `migrate` must block signals before there are any.
            let isCompletion = CommandLine.arguments.dropFirst().first == "---completion"
            var command = isCompletion ? try await asyncParseAsRoot() : try parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let error as HistoryError {
            complain("\(error)")
            exit(withError: ExitCode(ExitStatus(error).rawValue))
        } catch let error as ControlError {
            for line in error.lines { complain(line) }
            exit(withError: ExitCode(ExitStatus(error.code).rawValue))
        } catch let error as ControlClient.Unreachable {
            complain("\(error)")
            let status: ExitStatus = error.isForbidden ? .noPermission : .unavailable
            exit(withError: ExitCode(status.rawValue))
        } catch let error as ControlClient.Unanswered {
            complain("\(error)")
            exit(withError: ExitCode(ExitStatus.temporary.rawValue))
        } catch let error as StreamError {
            complain("\(error)")
            exit(withError: ExitCode(ExitStatus.inputOutput.rawValue))
        } catch {
            // Help and version, which are not failures, and usage errors.
            exit(withError: unknownCommand().map { ValidationError($0) } ?? error)
        }
    }

    /// The problem with the first argument if it should name a command and does not.
    private static func unknownCommand() -> String? {
        guard let name = CommandLine.arguments.dropFirst().first, !name.hasPrefix("-") else { return nil }
        let known = configuration.subcommands.map { $0._commandName } + ["help"]
        if known.contains(name) { return nil }
        let hint = NearestName.of(name, in: known).map { " Did you mean \"\($0)\"?" } ?? ""
        return "There is no command \"\(name)\".\(hint)"
    }

    static func complain(_ text: String) {
        let line = Array("historyctl: \(text.printable)\n".utf8)
        // If standard error is closed, the status still reports the failure.
        _ = write(STDERR_FILENO, line, line.count)
    }
}
