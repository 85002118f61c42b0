import CSimulation
import Glibc
import HistoryDaemon
import PersistentHistory

/// The journal: takes the daemon's entries, and notes in the record what they tell.
enum Journal {
    private static let record = Locked<Record?>(nil)
    private static let seen = Locked<Set<MessageCode>>([])

    static func open(_ record: Record) {
        Self.record.withLock { $0 = record }
        csimulation_take_journal { fields, count in
            var entry: [String: String] = [:]
            for field in UnsafeBufferPointer(start: fields, count: Int(count)) {
                let bytes = UnsafeRawBufferPointer(start: field.iov_base, count: field.iov_len)
                let parts = String(decoding: bytes, as: UTF8.self).split(separator: "=", maxSplits: 1)
                if parts.count == 2 { entry[String(parts[0])] = String(parts[1]) }
            }
            Journal.note(entry)
        }
    }

    private static func note(_ entry: [String: String]) {
        guard let record = record.withLock(\.self), let message = entry["MESSAGE"] else { return }
        let store = entry["HISTORYD_STORE"] ?? ""
        let consumer = entry["HISTORYD_CONSUMER"] ?? ""
        let number = entry["HISTORYD_TOKEN"].flatMap { HistoryToken($0) }.map { "\($0.number)" } ?? ""
        let event = entry["MESSAGE_ID"].flatMap { MessageCode(rawValue: $0) }
        // The first of its kind in this life: what the simulation reaches is counted.
        if let event, seen.withLock({ $0.insert(event).inserted }) { record.write("message", "\(event)") }
        switch event {
        case .tokenExpired, .stateLost, .stateCorrupt, .historyBeganAgain:
            record.write("lost", store, consumer, message, event.map { "\($0)" } ?? "")
        case .storeLost, .stateUnavailable, .wouldLockOut, .storeReplaced:
            record.write("closed", store, message)
        case .contextRefilled: record.write("merged", store, consumer, number)
        case .deadLetterKept: record.write("given up", store, consumer, entry["HISTORYD_HOOK"] ?? "", number)
        case nil where message.hasPrefix("The cursor of "): record.write("moved", store, consumer, number)
        case nil where message.contains(" continues after "): record.write("stands", store, consumer, number)
        case nil where message.hasPrefix("Merged "): record.write("merged", store, consumer, number)
        case nil where message.hasPrefix("Store ") && message.contains(" is open at "):
            record.write("closed", store, message)
        default: record.write("log", event.map { "\($0)" } ?? "", store, message)
        }
    }
}
