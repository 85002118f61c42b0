import Logging
import PersistentHistory

/// One entry for the journal, in the form of sd_journal_sendv(3): `NAME=value`, field after field.
///
/// Only keys of the table below become fields. A name made from any key, say by upper-casing, could be one that
/// journald drops silently (`[A-Z0-9_]`, at most 64 bytes, no `_` in front), or one with another meaning. Every
/// other key follows the message as `key=value`.
struct JournalEntry: Sendable {
    static let fieldNames = [
        "store": "HISTORYD_STORE",
        "consumer": "HISTORYD_CONSUMER",
        "author": "HISTORYD_AUTHOR",
        "context": "HISTORYD_CONTEXT",
        "hook": "HISTORYD_HOOK",
        "plugin": "HISTORYD_PLUGIN",
        "delivery": "HISTORYD_DELIVERY",
        "token": "HISTORYD_TOKEN",
        "entity": "HISTORYD_ENTITY",
        "template": "HISTORYD_TEMPLATE",
        "event": "MESSAGE_ID",
    ]

    private(set) var bytes: [UInt8] = []
    /// Where each field ends in `bytes`.
    private(set) var ends: [Int] = []

    /// Builds an entry. sd_journal_sendv(3) adds the `SYSLOG_IDENTIFIER`, which is the program's name.
    init(level: Logger.Level, message: String, metadata: Logger.Metadata = [:]) {
        // By key, so that an entry always looks the same.
        let metadata = metadata.sorted { $0.key < $1.key }
        let isField = { (key: String, value: Logger.MetadataValue) in
            // Metadata that happens to be called "event" must not become a MESSAGE_ID.
            Self.fieldNames[key] != nil && (key != "event" || MessageCode(rawValue: "\(value)") != nil)
        }
        var text = message
        for (key, value) in metadata where !isField(key, value) {
            text.append(" \(LogText.pair(key, value))")
        }
        append("MESSAGE", text)
        append("PRIORITY", String(level.syslogPriority))
        for (key, value) in metadata where isField(key, value) {
            if let name = Self.fieldNames[key] { append(name, "\(value)") }
        }
    }

    private mutating func append(_ name: String, _ value: String) {
        bytes.append(contentsOf: name.utf8)
        bytes.append(UInt8(ascii: "="))
        bytes.append(contentsOf: value.utf8)
        ends.append(bytes.count)
    }
}

extension Logger.Level {
    /// The priority of syslog(3) for the level. The daemon logs no alerts or emergencies.
    var syslogPriority: Int {
        switch self {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }
}
