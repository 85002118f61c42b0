import Foundation
import HistoryConfiguration
import HistoryNATS
import PersistentHistory

/// A refusal by JetStream.
struct JetStreamError: Error, Decodable, CustomStringConvertible {
    let code: Int
    let number: Int?
    let text: String?

    private enum CodingKeys: String, CodingKey {
        case code
        case number = "err_code"
        case text = "description"
    }

    var isMissing: Bool { code == 404 }
    /// Whether another publisher has sent a message meanwhile.
    var isOvertaken: Bool { number == 10070 || number == 10071 }
    var description: String {
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
struct JetStream {
    let connection: NATSConnection

    private struct Answer<Value: Decodable>: Decodable {
        let error: JetStreamError?
        let value: Value?

        private enum CodingKeys: String, CodingKey { case error }

        init(from decoder: any Decoder) throws {
            error = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(
                JetStreamError.self, forKey: .error)
            value = error == nil ? try Value(from: decoder) : nil
        }
    }

    /// - Throws: `NATSError`, `JetStreamError`.
    private func ask<Value: Decodable>(_ subject: String, _ body: some Encodable) throws -> Value {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let bytes = try connection.request("$JS.API.\(subject)", Array(encoder.encode(body)))
        return try Self.answer(bytes, to: subject)
    }

    static func answer<Value: Decodable>(_ bytes: [UInt8], to subject: String) throws -> Value {
        let answer: Answer<Value>
        do {
            answer = try JSONDecoder().decode(Answer<Value>.self, from: Data(bytes))
        } catch {
            throw NATSError(call: subject, reason: "the answer cannot be read")
        }
        if let error = answer.error { throw error }
        guard let value = answer.value else { throw NATSError(call: subject, reason: "the answer is empty") }
        return value
    }

    private struct Nothing: Codable {}

    // MARK: Streams

    struct StreamState: Decodable {
        let messages: UInt64
        let bytes: UInt64
        let first: UInt64
        let last: UInt64

        private enum CodingKeys: String, CodingKey {
            case messages, bytes
            case first = "first_seq"
            case last = "last_seq"
        }
    }

    private struct StreamInfo: Decodable { let state: StreamState }

    func state(of stream: String) throws -> StreamState {
        let info: StreamInfo = try ask("STREAM.INFO.\(stream)", Nothing())
        return info.state
    }

    private struct StreamConfiguration: Encodable {
        let name: String
        let subjects: [String]
        var retention = "limits"
        var storage = "file"
        var discard = "old"
        let maxAge: Int64
        let maxBytes: Int64
        let numReplicas: Int
        var denyDelete = true
        let denyPurge: Bool
    }

    /// Creates a stream if it is missing.
    ///
    /// - Parameter isPurged: Whether old messages are removed by its publisher.
    func make(_ stream: String, _ subject: String, _ limits: NATSConfiguration.Stream, isPurged: Bool) throws {
        do {
            _ = try state(of: stream)
        } catch let error as JetStreamError where error.isMissing {
            let configuration = StreamConfiguration(
                name: stream, subjects: [subject],
                maxAge: isPurged ? 0 : (limits.maxAge?.milliseconds ?? 0) * 1_000_000,
                maxBytes: isPurged ? -1 : limits.maxBytes ?? -1, numReplicas: limits.replicas,
                denyPurge: !isPurged)
            let _: StreamInfo = try ask("STREAM.CREATE.\(stream)", configuration)
        }
    }

    private struct Purge: Encodable { let seq: UInt64 }
    private struct Purged: Decodable { let success: Bool? }

    /// Deletes the messages before a sequence.
    func purge(_ stream: String, before sequence: UInt64) throws {
        let _: Purged = try ask("STREAM.PURGE.\(stream)", Purge(seq: sequence))
    }

    // MARK: Messages

    /// A requested message.
    struct Stored {
        let sequence: UInt64
        let content: Result<GroupHeader, ForeignMessage>
        let messageID: String

        var header: GroupHeader? { try? content.get() }
    }

    private struct Asked: Encodable {
        var seq: UInt64?
        var lastBySubj: String?
    }

    private struct Got: Decodable {
        struct Message: Decodable {
            let seq: UInt64
            let hdrs: Data?
        }
        let message: Message
    }

    /// The message with a sequence; nil if there is none.
    func message(_ sequence: UInt64, of stream: String) throws -> Stored? {
        try message(Asked(seq: sequence), of: stream)
    }

    private struct SubjectFilter: Encodable { let subjectsFilter: String }
    private struct SubjectCounts: Decodable {
        struct State: Decodable { let subjects: [String: Int]? }
        let state: State
    }

    /// The last message of a subject; nil if there is none.
    func last(_ subject: String, of stream: String) throws -> Stored? {
        // nats-server 2.9.10 panics when it is asked for the last message of a subject without messages.
        let info: SubjectCounts = try ask("STREAM.INFO.\(stream)", SubjectFilter(subjectsFilter: subject))
        guard info.state.subjects?[subject] ?? 0 > 0 else { return nil }
        return try message(Asked(lastBySubj: subject), of: stream)
    }

    private func message(_ asked: Asked, of stream: String) throws -> Stored? {
        do {
            let got: Got = try ask("STREAM.MSG.GET.\(stream)", asked)
            let fields = Self.fields(got.message.hdrs ?? Data())
            return Stored(
                sequence: got.message.seq, content: GroupHeader.read { fields[$0] },
                messageID: fields["Nats-Msg-Id"] ?? "")
        } catch let error as JetStreamError where error.isMissing {
            return nil
        }
    }

    /// `NATS/1.0`, and a line for each header.
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

    struct ConsumerRequest: Encodable {
        struct Configuration: Encodable {
            var deliverPolicy = "by_start_sequence"
            let optStartSeq: UInt64
            var ackPolicy = "none"
            var replayPolicy = "instant"
            var filterSubject: String?
            /// In nanoseconds. If applying a group takes longer, another consumer is created.
            var inactiveThreshold: Int64 = 300_000_000_000
        }
        let streamName: String
        let config: Configuration
    }

    private struct ConsumerInfo: Decodable { let name: String }

    /// Creates a pull consumer, which the server deletes when it is no longer used.
    func makeConsumer(of stream: String, from sequence: UInt64, subject: String? = nil) throws -> String {
        let request = ConsumerRequest(
            streamName: stream,
            config: .init(optStartSeq: max(1, sequence), filterSubject: subject))
        let info: ConsumerInfo = try ask("CONSUMER.CREATE.\(stream)", request)
        return info.name
    }
}
