import Glibc
import HistoryConfiguration
import HistoryDaemon
import Logging
import PersistentHistory
import ServiceLifecycle
import UnixSignals

// A daemon that does only what systemd sees of one: it logs, reports readiness, feeds the watchdog, and ends at
// SIGTERM. The tests run it under the real unit with its whole sandbox. Its arguments make it misbehave:
//
//   --status N     ends with that status instead of getting ready
//   --stuck        its pipeline never answers
//   --hang         does not get ready and does not react to SIGTERM

let arguments = CommandLine.arguments.dropFirst()
let level = LiveLogLevel(.debug)
LogOutput.suitable.bootstrap(level: level)
let logger = Logger(label: "historyd")
let notifier = ServiceNotifier(logger: logger)

logger.report(.starting, "The probe is starting.")
if let status = arguments.firstIndex(of: "--status").flatMap({ arguments[($0 + 1)...].first }).flatMap(
    Int32.init)
{
    logger.report(.configurationInvalid, "The probe was told to end.", metadata: ["status": "\(status)"])
    exit(status)
}
if arguments.contains("--hang") {
    signal(SIGTERM, SIG_IGN)
    while true { pause() }
}

struct NotAnswering: Error {}
let isStuck = arguments.contains("--stuck")
let watchdog = WatchdogService(
    interval: ServiceNotifier.watchdogInterval(), notifier: notifier, logger: logger
) {
    if isStuck { throw NotAnswering() }
    logger.debug("The pipeline answers.")
}

// A line with every field, to be read back from the journal.
logger.warning(
    "Every field.",
    metadata: [
        "store": "contacts", "consumer": "MainApp", "author": "WidgetExtension", "context": "view",
        "hook": "audit/new-people", "plugin": "audit", "delivery": "d1", "token": "t:1", "entity": "person",
        "event": .string(MessageCode.hookFailed.rawValue), "unknown key": "two words",
    ])
notifier.notify(.ready, .status("Watching 1 store, 2 hooks; 0 deliveries pending"))
logger.report(.ready, "The probe is ready.")

let group = ServiceGroup(
    configuration: .init(
        services: [.init(service: watchdog)], gracefulShutdownSignals: [.sigterm], logger: logger))
try await group.run()
notifier.notify(.stopping)
logger.report(.stopping, "The probe is stopping.")
