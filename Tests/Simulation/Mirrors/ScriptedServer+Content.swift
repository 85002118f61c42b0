import CSimulation
import FoundationEssentials
import PersistentHistory

extension ScriptedServer.Content {
    // MARK: Storing

    mutating func store(
        _ message: ScriptedMessage, _ connection: ScriptedConnection, _ fate: ScriptedServer.Fate?
    ) {
        guard let name = streams.values.first(where: { $0.takes(message.subject) })?.name else {
            connection.deliver(
                ScriptedMessage(message.reply, [("Status", "503")], []), to: message.reply, after: 200_000)
            return
        }
        if ScriptedServer.isDrawn(trouble.foreign) { storeForeign(in: name) }
        let isFull = trouble.isFull && name.hasSuffix("_SNAPSHOT")
        let reply: ScriptedStream.Reply? =
            isFull || fate == .refused
            ? .refused(code: 503, number: 10023, text: "insufficient resources")
            : streams[name]?.store(message.subject, message.fields, message.content, at: csimulation_now())
        // A snapshot that is continued is held together by its parts' numbers.
        if case .stored(let sequence) = reply, let stream = streams[name], !name.hasSuffix("_SNAPSHOT"),
            !stream.isChained(sequence)
        {
            unchained.append("message \(sequence) of \(name)")
        }
        serve(name)
        guard let reply, fate != .unanswered else { return }
        let text =
            switch reply {
            case .stored(let sequence): #"{"stream":"\#(name)", "seq":\#(sequence)}"#
            case .duplicate(let sequence): #"{"stream":"\#(name)", "seq":\#(sequence), "duplicate": true}"#
            case .refused(let code, let number, let text):
                #"{"error":{"code":\#(code),"err_code":\#(number),"description":"\#(text)"},"stream":"\#(name)","seq":0}"#
            }
        connection.deliver(
            ScriptedMessage(message.reply, [], Array((fate == .garbled ? "}{" : text).utf8)), to: message.reply,
            after: fate == .late ? Int64(1 + ScriptedServer.draw(14)) * 1_000_000_000 : 300_000)
    }

    /// Stores what another client has published: something of its own, or a copy of an earlier message.
    mutating func storeForeign(in name: String) {
        guard let stream = streams[name] else { return }
        let copied = stream.messages.isEmpty ? nil : stream.messages[ScriptedServer.draw(stream.messages.count)]
        var fields: [(name: String, value: String)] = []
        var (subject, body) = (String(stream.subjects.dropLast()) + "other", Array("foreign".utf8))
        switch (ScriptedServer.draw(7), copied) {
        case (0...2, let copied?):
            (subject, body) = (copied.subject, copied.body)
            fields = copied.fields.filter { !$0.name.hasPrefix("Nats-Expected") }
        case (3, let copied?):
            (subject, body) = (copied.subject, copied.body)
            let status = ["100", "409", "503"][ScriptedServer.draw(3)]
            fields = [("Status", status), ("Description", "Consumer Deleted")]
        case (4, _): fields = [("Historyd-Format", "2")]
        case (5, let copied?):
            subject = copied.subject
            fields = copied.fields.map { $0.name == "Historyd-Epoch" ? ($0.name, "99999999999999999") : $0 }
                .filter { !$0.name.hasPrefix("Nats-") }
        default: break
        }
        // Not even its id is to keep it out: it may come a long time after.
        let id = fields.first { $0.name == "Nats-Msg-Id" }
        fields.removeAll { $0.name == "Nats-Msg-Id" }
        _ = streams[name]?.store(subject, fields, body, at: csimulation_now(), showing: id)
        serve(name)
    }

    // MARK: Consumers

    mutating func pull(_ name: String, _ message: ScriptedMessage, _ connection: ScriptedConnection) {
        guard let consumer = consumers[name] else {
            connection.deliver(
                ScriptedMessage(message.reply, [("Status", "503")], []), to: message.reply, after: 200_000)
            return
        }
        let asked = JSONReader.read(message.content).root?.object ?? [:]
        func number(_ name: BinaryText) -> Int { asked[name]?.number?.integer ?? 0 }
        let now = csimulation_now()
        let heartbeat = Int64(number("idle_heartbeat"))
        consumers[name]?.requests.append(
            ScriptedConsumer.Request(
                connection: connection, inbox: message.reply, messages: number("batch"),
                bytes: number("max_bytes"), expires: now + Int64(number("expires")), heartbeat: heartbeat,
                nextBeat: heartbeat > 0 ? now + heartbeat : .max))
        serve(consumer.stream)
    }

    /// Delivers what open requests of a stream's consumers wait for.
    mutating func serve(_ name: String) {
        guard let stream = streams[name] else { return }
        for id in consumers.keys.sorted() where consumers[id]?.stream == name { serve(id, stream) }
    }

    private mutating func serve(_ id: String, _ stream: ScriptedStream) {
        guard var consumer = consumers[id] else { return }
        defer { consumers[id] = consumer }
        while var request = consumer.requests.first,
            let message = stream.next(from: consumer.next, consumer.filter)
        {
            consumer.requests.removeFirst()
            if ScriptedServer.isDrawn(trouble.words) {
                let (code, text) = Self.words[ScriptedServer.draw(Self.words.count)]
                request.say(code, text)
                continue
            }
            guard message.size <= request.bytes else {
                request.say("409", "Message Size Exceeds MaxBytes")
                continue
            }
            consumer.next = message.sequence + 1
            consumer.count += 1
            let pending = stream.pending(after: message.sequence, consumer.filter)
            let reply =
                "$JS.ACK.\(stream.name).\(id).1.\(message.sequence).\(consumer.count).\(csimulation_now()).\(pending)"
            request.connection.deliver(
                ScriptedMessage(message.subject, reply: reply, message.fields, message.body), to: request.inbox,
                after: 200_000 + Int64(message.size) * 50)
            request.messages -= 1
            request.bytes -= message.size
            if request.heartbeat > 0 { request.nextBeat = csimulation_now() + request.heartbeat }
            if request.messages > 0, request.bytes > 0 {
                consumer.requests.insert(request, at: 0)
            } else if saysCompleted, request.messages == 0 {
                request.say("409", "Batch Completed")
            }
        }
    }

    /// What a server may say to a request at any time. The last ones end a session.
    private static let words = [
        ("409", "Leadership Change"), ("409", "A Word Of 2030"), ("499", ""), ("404", "No Messages"),
        ("408", "Request Timeout"), ("409", "Exceeded MaxWaiting"), ("409", "Server Shutdown"),
        ("400", "Bad Request"), ("409", "Consumer Deleted"),
    ]

    mutating func sayWhatIsDue(_ id: String, _ inbox: String) {
        guard var consumer = consumers[id] else { return }
        let now = csimulation_now()
        for index in consumer.requests.indices.reversed() where consumer.requests[index].isOf(inbox) {
            let request = consumer.requests[index]
            if request.expires <= now {
                request.say("408", "Request Timeout")
                consumer.requests.remove(at: index)
            } else if request.nextBeat <= now {
                request.say("100", "Idle Heartbeat")
                consumer.requests[index].nextBeat = now + request.heartbeat
            }
        }
        consumers[id] = consumer
    }
}
