import CSimulation
import FoundationEssentials
import PersistentHistory

/// What JetStream answers to requests.
extension ScriptedServer.Content {
    private static func missing(_ number: Int, _ text: String) -> [UInt8] {
        Array(#"{"error":{"code":404,"err_code":\#(number),"description":"\#(text)"}}"#.utf8)
    }

    mutating func answer(_ subject: String, _ asked: [BinaryText: JSONValue]) -> [UInt8] {
        let words = subject.split(separator: ".").map(String.init)
        let (name, call) = (words.last ?? "", words.dropFirst(2).dropLast().joined(separator: "."))
        if call == "STREAM.CREATE" { return create(name, asked) }
        guard let stream = streams[name] else { return Self.missing(10059, "stream not found") }
        switch call {
        case "STREAM.INFO": return Self.info(stream, asked["subjects_filter"]?.text)
        case "STREAM.PURGE":
            if let sequence = asked["seq"]?.number?.integer { streams[name]?.purge(before: UInt64(sequence)) }
            if let filter = asked["filter"]?.text { streams[name]?.purge(subject: filter) }
            return Array(#"{"success":true}"#.utf8)
        case "STREAM.MSG.GET": return Self.get(stream, asked)
        case "CONSUMER.CREATE": return makeConsumer(stream, asked["config"]?.object ?? [:])
        default: return Self.missing(0, "no such request: \(subject)")
        }
    }

    private mutating func create(_ name: String, _ asked: [BinaryText: JSONValue]) -> [UInt8] {
        let subjects = asked["subjects"]?.array?.first?.text ?? ""
        streams[name] = ScriptedStream(
            name, subjects, at: csimulation_now(), maxAge: Int64(asked["max_age"]?.number?.integer ?? 0),
            maxBytes: Int64(asked["max_bytes"]?.number?.integer ?? -1))
        return Array(#"{"type":"io.nats.jetstream.api.v1.stream_create_response"}"#.utf8)
    }

    private static func info(_ stream: ScriptedStream, _ filter: String?) -> [UInt8] {
        var subjects = ""
        if let filter {
            var counts: [String: Int] = [:]
            for message in stream.messages where ScriptedStream.fits(message.subject, filter) {
                counts[message.subject, default: 0] += 1
            }
            let texts = counts.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }
            subjects = #","subjects":{\#(texts.joined(separator: ","))}"#
        }
        return Array(
            """
            {"config":{"retention":"limits","storage":"file","max_msgs_per_subject":-1,"max_age":\(stream.maxAge),\
            "max_bytes":\(stream.maxBytes)},"created":"\(stream.created)","state":{"messages":\(stream.messages.count),\
            "bytes":\(stream.bytes),"first_seq":\(stream.first),"last_seq":\(stream.last)\(subjects)}}
            """.utf8)
    }

    private static func get(_ stream: ScriptedStream, _ asked: [BinaryText: JSONValue]) -> [UInt8] {
        let found =
            if let subject = asked["last_by_subj"]?.text {
                stream.messages.last { ScriptedStream.fits($0.subject, subject) }
            } else {
                stream.message(UInt64(asked["seq"]?.number?.integer ?? 0))
            }
        guard let found else { return missing(10037, "no message found") }
        let header = "NATS/1.0\r\n" + found.fields.map { "\($0.name): \($0.value)\r\n" }.joined() + "\r\n"
        let (headers, data) = (
            Data(header.utf8).base64EncodedString(), Data(found.body).base64EncodedString()
        )
        return Array(
            #"{"message":{"subject":"\#(found.subject)","seq":\#(found.sequence),"hdrs":"\#(headers)","data":"\#(data)"}}"#
                .utf8)
    }

    private mutating func makeConsumer(
        _ stream: ScriptedStream, _ asked: [BinaryText: JSONValue]
    ) -> [UInt8] {
        number += 1
        let start = asked["opt_start_seq"]?.number?.integer ?? 1
        let filter = asked["filter_subject"]?.text
        consumers["c\(number)"] = ScriptedConsumer(
            stream: stream.name, filter: filter, next: UInt64(max(1, start)))
        let made = filter.map { #","filter_subject":"\#($0)""# } ?? ""
        return Array(#"{"name":"c\#(number)","config":{"opt_start_seq":\#(start)\#(made)}}"#.utf8)
    }
}
