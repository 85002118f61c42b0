internal import FoundationEssentials

/// A hook's call as JSON: what a plugin reads, and what a dead letter keeps.
package protocol HookCallJSON {
    /// Appends the call's parameters as one object.
    func write(to json: inout JSONBytes)
}

extension HookCallJSON {
    /// The call's parameters as one object.
    package var parameters: [UInt8] {
        var json = JSONBytes()
        write(to: &json)
        return json.bytes.array
    }
}

extension ObserverCall: HookCallJSON {
    package func write(to json: inout JSONBytes) {
        if let kept { return json.raw(kept) }
        json.object { json in
            writeHeader(to: &json)
            part?.write(to: &json)
            json.name("transaction")
            HistoryJSON.writeHeader(of: transaction, to: &json)
            var writer = ValueWriter(values)
            writer?.writePosition(to: &json)
            json.name("contexts")
            HistoryJSON.writeContexts(changes, of: transaction, &writer, to: &json)
        }
    }
}

extension CallPart {
    /// The member `part`.
    func write(to json: inout JSONBytes) {
        json.name("part")
        json.object { json in
            json.name("index")
            json.integer(index)
            json.name("last")
            json.bool(isLast)
        }
    }
}

extension MergeCall: HookCallJSON {
    package func write(to json: inout JSONBytes) {
        if let kept { return json.raw(kept) }
        json.object { json in
            header.write(to: &json)
            part?.write(to: &json)
            var writer = ValueWriter(values)
            writer?.writePosition(to: &json)
            json.name("transactions")
            json.array { json in
                for transaction in transactions { HistoryJSON.write(transaction, &writer, to: &json) }
            }
            json.name("contexts")
            json.array { json in
                for context in contexts {
                    json.object { json in
                        json.name("name")
                        json.string(context.name)
                        json.name("kind")
                        json.string(context.kind)
                        json.name("path")
                        json.string(context.path)
                    }
                }
            }
        }
    }
}

extension ExpiredCall: HookCallJSON {
    package func write(to json: inout JSONBytes) {
        json.object { json in
            header.write(to: &json)
            expiry.writeMembers(to: &json)
        }
    }
}

extension Expiry {
    /// The members of a call that tells of it.
    func writeMembers(to json: inout JSONBytes) {
        json.name("reason")
        json.string(reason.rawValue)
        json.name("lost")
        if let lost { HistoryJSON.write(lost, to: &json) } else { json.null() }
        json.name("after")
        HistoryJSON.write(after, to: &json)
        writeEntities(to: &json)
    }

    /// The member `entities`, where only some have to be read again.
    func writeEntities(to json: inout JSONBytes) {
        if entities.isEmpty { return }
        json.name("entities")
        json.array { json in for entity in entities { json.string(entity) } }
    }
}
