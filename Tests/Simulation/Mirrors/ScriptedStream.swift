import HistoryNATS

/// A stream as a server keeps it.
struct ScriptedStream: Sendable {
    struct Message: Sendable {
        let sequence: UInt64
        let subject: String
        var fields: [(name: String, value: String)]
        let body: [UInt8]

        subscript(name: String) -> String? { fields.first { $0.name == name }?.value }
        /// With its headers, about as the server counts it.
        var size: Int {
            fields.reduce(subject.utf8.count + body.count) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        }
    }

    /// What a server says to a message.
    enum Reply {
        case stored(UInt64)
        case duplicate(UInt64)
        case refused(code: Int, number: Int, text: String)
    }

    let name: String
    /// It ends with `>`.
    let subjects: String
    /// In simulated nanoseconds.
    let created: Int64
    var maxAge: Int64
    var maxBytes: Int64
    private(set) var messages: [Message] = []
    private(set) var last: UInt64 = 0
    /// By id: when, and where.
    private var known: [String: (sequence: UInt64, time: Int64)] = [:]
    /// Of the last message, even if that was removed since.
    private var lastID = ""
    /// Set by an operator.
    var mostMessages = Int.max

    private static let duplicateWindow: Int64 = 120_000_000_000

    init(_ name: String, _ subjects: String, at now: Int64, maxAge: Int64, maxBytes: Int64) {
        (self.name, self.subjects, created) = (name, subjects, now)
        (self.maxAge, self.maxBytes) = (maxAge, maxBytes)
    }

    var first: UInt64 { messages.first?.sequence ?? (last == 0 ? 0 : last + 1) }
    var bytes: Int { messages.reduce(0) { $0 + $1.size } }

    func takes(_ subject: String) -> Bool { subject.hasPrefix(subjects.dropLast()) }

    static func fits(_ subject: String, _ filter: String?) -> Bool {
        guard let filter else { return true }
        return filter.hasSuffix(">") ? subject.hasPrefix(filter.dropLast()) : subject == filter
    }

    /// Stores a message if its conditions are met, in the order in which nats-server checks them.
    ///
    /// - Parameter foreignID: The id of a copied message, by which it is not compared.
    mutating func store(
        _ subject: String, _ fields: [(name: String, value: String)], _ body: [UInt8], at now: Int64,
        showing foreignID: (name: String, value: String)? = nil
    ) -> Reply {
        func value(_ name: String) -> String? { fields.first { $0.name == name }?.value }
        if let expected = value("Nats-Expected-Stream"), expected != name {
            return .refused(code: 400, number: 10060, text: "expected stream does not match")
        }
        let id = value("Nats-Msg-Id")
        if let id, let earlier = known[id], now - earlier.time < Self.duplicateWindow {
            return .duplicate(earlier.sequence)
        }
        if let expected = value("Nats-Expected-Last-Sequence"), UInt64(expected) != last {
            return .refused(code: 400, number: 10071, text: "wrong last sequence: \(last)")
        }
        if let expected = value("Nats-Expected-Last-Msg-Id") {
            if expected != lastID {
                return .refused(code: 400, number: 10070, text: "wrong last msg ID: \(lastID)")
            }
        }
        last += 1
        let shown = fields + [foreignID].compactMap(\.self)
        lastID = foreignID?.value ?? id ?? ""
        messages.append(Message(sequence: last, subject: subject, fields: shown, body: body))
        if let id { known[id] = (last, now) }
        removeOldest()
        return .stored(last)
    }

    /// Whether a message of a publisher continues the one before it, if that is still there.
    func isChained(_ sequence: UInt64) -> Bool {
        guard let message = message(sequence), let before = self.message(sequence - 1),
            let header = try? GroupHeader({ message[$0] })
        else { return true }
        return header.fits(message["Nats-Msg-Id"] ?? "", behind: before["Nats-Msg-Id"] ?? "")
    }

    /// Keeps to the limits.
    mutating func removeOldest() {
        if messages.count > mostMessages { messages.removeFirst(messages.count - mostMessages) }
        guard maxBytes > 0 else { return }
        var bytes = bytes
        while Int64(bytes) > maxBytes, let oldest = messages.first {
            bytes -= oldest.size
            messages.removeFirst()
        }
    }

    /// Another server leads: it knows of the last message what is stored.
    mutating func changeLeader() {
        lastID = messages.last.flatMap { $0.sequence == last ? $0["Nats-Msg-Id"] : nil } ?? ""
    }

    mutating func purge(before sequence: UInt64) { messages.removeAll { $0.sequence < sequence } }
    mutating func purge(subject: String) { messages.removeAll { Self.fits($0.subject, subject) } }

    /// The first message from a sequence on.
    func next(from sequence: UInt64, _ filter: String?) -> Message? {
        index(of: sequence).flatMap { start in
            messages[start...].first { Self.fits($0.subject, filter) }
        }
    }

    /// How many messages follow a sequence.
    func pending(after sequence: UInt64, _ filter: String?) -> Int {
        index(of: sequence + 1).map { messages[$0...].count { Self.fits($0.subject, filter) } } ?? 0
    }

    func message(_ sequence: UInt64) -> Message? {
        index(of: sequence).flatMap { messages[$0].sequence == sequence ? messages[$0] : nil }
    }

    /// The index of the first message with at least this sequence.
    private func index(of sequence: UInt64) -> Int? {
        var (low, high) = (0, messages.count)
        while low < high {
            let middle = (low + high) / 2
            if messages[middle].sequence < sequence { low = middle + 1 } else { high = middle }
        }
        return low < messages.count ? low : nil
    }
}
