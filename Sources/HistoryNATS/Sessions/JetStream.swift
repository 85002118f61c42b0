import Foundation
import HistoryConfiguration
import PersistentHistory

/// A refusal by JetStream.
package struct JetStreamError: Error, CustomStringConvertible {
    package let code: Int
    package let number: Int?
    package let text: String?

    package var isMissing: Bool { code == 404 }
    /// Whether another client has sent a message in between. The last code is that of replicated streams.
    package var isOvertaken: Bool { [10070, 10071, 10164].contains(number) }
    /// The stream's last sequence, as such a refusal mostly tells it: `wrong last sequence: 12`.
    var lastSequence: UInt64? {
        guard number == 10071 else { return nil }
        return text?.split(separator: " ").last.flatMap { UInt64($0) }
    }
    package var description: String {
        let text = "\(text ?? "refused") (\(number ?? code))"
        return switch number {
        case 10059: "\(text): the publisher creates it, or an operator where \"create\" is false"
        case 10039, 10076:
            "\(text): put \"jetstream {}\" into the server's configuration, and allow it for the account"
        default: text
        }
    }
}

/// JetStream's own requests, which are JSON (https://docs.nats.io/reference/reference-protocols/nats_api_reference).
package struct JetStream {
    let connection: any StreamConnection
    /// The prefix of the requests' subjects.
    let prefix: String

    package init(connection: any StreamConnection, prefix: String) {
        (self.connection, self.prefix) = (connection, prefix)
    }

    private typealias Members = [BinaryText: JSONValue]

    /// - Throws: `NATSError`, `JetStreamError`.
    private func ask(
        _ subject: String, within timeout: Duration = .seconds(5),
        _ body: (inout JSONBytes) -> Void = { _ in }
    ) throws -> Members {
        var json = JSONBytes()
        json.object(body)
        let answer = try connection.request("\(prefix).\(subject)", json.bytes.array, timeout: timeout)
        return try Self.answer(answer, to: subject)
    }

    static func answer(_ bytes: [UInt8], to subject: String) throws -> [BinaryText: JSONValue] {
        guard let answer = JSONReader.read(bytes).root?.object else {
            throw NATSError(call: subject, reason: "the answer cannot be read")
        }
        guard let error = answer["error"]?.object else { return answer }
        throw JetStreamError(
            code: error["code"]?.number?.integer ?? 0, number: error["err_code"]?.number?.integer,
            text: error["description"]?.text)
    }

    private func lacking(_ name: String, _ subject: String) -> NATSError {
        NATSError(call: subject, reason: "the answer has no \(name)")
    }

    // MARK: Streams

    func state(of stream: String) throws -> StreamState { try description(of: stream).state }

    /// A stream's state and settings.
    package func description(of stream: String) throws -> (state: StreamState, settings: StreamSettings) {
        let info = try ask("STREAM.INFO.\(stream)")
        let state = info["state"]?.object
        func number(_ name: BinaryText) throws -> UInt64 {
            guard let number = state?[name]?.number?.integer.flatMap({ UInt64(exactly: $0) }) else {
                throw lacking(name.text, "STREAM.INFO.\(stream)")
            }
            return number
        }
        let known = StreamState(
            messages: try number("messages"), bytes: try number("bytes"), first: try number("first_seq"),
            last: try number("last_seq"), created: info["created"]?.text ?? "")
        return (known, Self.settings(info["config"]?.object ?? [:]))
    }

    private static func settings(_ config: Members) -> StreamSettings {
        var settings = StreamSettings()
        settings.retention = config["retention"]?.text ?? settings.retention
        settings.storage = config["storage"]?.text ?? settings.storage
        settings.mostPerSubject = config["max_msgs_per_subject"]?.number?.integer ?? settings.mostPerSubject
        settings.maxAge = Int64(config["max_age"]?.number?.integer ?? 0)
        settings.maxBytes = Int64(config["max_bytes"]?.number?.integer ?? -1)
        return settings
    }

    /// Creates a stream if it is missing.
    ///
    /// - Parameter isPurged: Whether the publisher deletes its old messages.
    /// - Returns: The settings of a stream that exists already.
    func make(
        _ stream: String, _ subject: String, _ limits: NATSConfiguration.Stream, isPurged: Bool
    ) throws -> StreamSettings? {
        do {
            return try description(of: stream).settings
        } catch let error as JetStreamError where error.isMissing {
            _ = try ask("STREAM.CREATE.\(stream)") { json in
                json.member("name", stream)
                json.member("subjects", [subject])
                json.member("retention", "limits")
                json.member("storage", "file")
                json.member("discard", "old")
                json.member("max_age", isPurged ? 0 : (limits.maxAge?.milliseconds ?? 0) * 1_000_000)
                json.member("max_bytes", isPurged ? -1 : limits.maxBytes ?? -1)
                json.member("num_replicas", Int64(limits.replicas))
                json.member("deny_delete", true)
                json.member("deny_purge", !isPurged)
            }
            return nil
        }
    }

    /// Deletes the messages before a sequence.
    func purge(_ stream: String, before sequence: UInt64) throws {
        _ = try ask("STREAM.PURGE.\(stream)") { $0.member("seq", Int64(sequence)) }
    }

    /// Deletes the messages of a subject.
    func purge(_ stream: String, subject: String) throws {
        _ = try ask("STREAM.PURGE.\(stream)") { $0.member("filter", subject) }
    }

    /// The subjects for which a stream has messages.
    func subjects(_ filter: String, of stream: String) throws -> [String] {
        let info = try ask("STREAM.INFO.\(stream)") { $0.member("subjects_filter", filter) }
        return (info["state"]?.object?["subjects"]?.object ?? [:]).keys.map(\.text)
    }

    // MARK: Messages

    /// A requested message.
    struct Stored {
        let sequence: UInt64
        let content: Result<GroupHeader, ForeignMessage>
        let messageID: String
        let subject: String

        var header: GroupHeader? { try? content.get() }
    }

    /// An answer contains the whole message, and a link of 16 kB/s carries a part of a snapshot in six seconds.
    private static let messageTimeout: Duration = .seconds(20)

    /// The message with a sequence; nil if there is none.
    func message(_ sequence: UInt64, of stream: String) throws -> Stored? {
        try message(of: stream) { $0.member("seq", Int64(sequence)) }
    }

    /// The last message of a subject; nil if there is none.
    func last(_ subject: String, of stream: String) throws -> Stored? {
        // nats-server 2.9.10 panics on a request for the last message of a subject without messages.
        let info = try ask("STREAM.INFO.\(stream)") { $0.member("subjects_filter", subject) }
        let counts = info["state"]?.object?["subjects"]?.object
        guard counts?[BinaryText(subject)]?.number?.integer ?? 0 > 0 else { return nil }
        return try message(of: stream) { $0.member("last_by_subj", subject) }
    }

    private func message(of stream: String, _ wanted: (inout JSONBytes) -> Void) throws -> Stored? {
        do {
            let message = try ask("STREAM.MSG.GET.\(stream)", within: Self.messageTimeout, wanted)["message"]?
                .object
            guard let sequence = message?["seq"]?.number?.integer.flatMap({ UInt64(exactly: $0) }) else {
                throw lacking("seq", "STREAM.MSG.GET.\(stream)")
            }
            let fields = Self.fields(message?["hdrs"]?.text.flatMap { Data(base64Encoded: $0) } ?? Data())
            return Stored(
                sequence: sequence, content: GroupHeader.read { fields[$0] },
                messageID: fields["Nats-Msg-Id"] ?? "", subject: message?["subject"]?.text ?? "")
        } catch let error as JetStreamError where error.isMissing {
            return nil
        }
    }

    /// Parses `NATS/1.0`, followed by a line for each header.
    private static func fields(_ data: Data) -> [String: String] {
        var fields: [String: String] = [:]
        for line in String(decoding: data, as: UTF8.self).split(separator: "\r\n").dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields[String(line[..<colon])] =
                line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        }
        return fields
    }

    // MARK: Consumers

    /// Creates a pull consumer, which the server deletes once it is unused.
    func makeConsumer(of stream: String, from sequence: UInt64, subject: String? = nil) throws -> String {
        let info = try ask("CONSUMER.CREATE.\(stream)") { json in
            json.member("stream_name", stream)
            json.name("config")
            json.object { json in
                json.member("deliver_policy", "by_start_sequence")
                json.member("opt_start_seq", Int64(max(1, sequence)))
                json.member("ack_policy", "none")
                json.member("replay_policy", "instant")
                if let subject { json.member("filter_subject", subject) }
                // In nanoseconds. If applying a group takes longer, another consumer is created.
                json.member("inactive_threshold", 300_000_000_000)
            }
        }
        guard let name = info["name"]?.text else { throw lacking("name", "CONSUMER.CREATE.\(stream)") }
        let made = info["config"]?.object
        guard made?["opt_start_seq"]?.number?.integer == Int(max(1, sequence)),
            made?["filter_subject"]?.text ?? "" == subject ?? ""
        else {
            throw NATSError(call: "CONSUMER.CREATE.\(stream)", reason: "the server made another consumer")
        }
        return name
    }
}
