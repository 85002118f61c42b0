internal import FoundationEssentials

/// A hook's call as JSON, for a plugin or for a dead letter.
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
        json.object(header.largeIntegers) { json in
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

extension JSONBytes {
    /// Writes an object in which large integers have their own format.
    @inline(__always) mutating func object(
        _ largeIntegers: LargeIntegers, _ members: (inout JSONBytes) -> Void
    ) {
        let before = self.largeIntegers
        self.largeIntegers = largeIntegers
        object(members)
        self.largeIntegers = before
    }
}

extension CallPart {
    /// The member `part`.
    func write(to json: inout JSONBytes) {
        json.name("part")
        json.object { json in
            json.member("index", index)
            json.member("last", isLast)
        }
    }
}

extension MergeCall: HookCallJSON {
    package func write(to json: inout JSONBytes) {
        if let kept { return json.raw(kept) }
        json.object(header.largeIntegers) { json in
            header.write(to: &json)
            part?.write(to: &json)
            var writer = ValueWriter(values)
            writer?.writePosition(to: &json)
            if let groups { return Self.write(groups, &writer, to: &json) }
            json.name("transactions")
            json.array { json in
                for transaction in transactions { HistoryJSON.write(transaction, &writer, to: &json) }
            }
            json.name("contexts")
            json.array { json in
                for context in contexts {
                    json.object { json in
                        json.member("name", context.name)
                        json.member("kind", context.kind)
                        json.member("path", context.path)
                    }
                }
            }
        }
    }
}

extension MergeCall {
    /// The call's method in the protocol.
    package var method: CallJSON.Method { groups == nil ? .merge : .observe }

    /// The member `groups`.
    private static func write(_ groups: [CallGroup], _ writer: inout ValueWriter?, to json: inout JSONBytes) {
        json.name("groups")
        json.array { json in
            for group in groups {
                json.object { json in
                    json.name("transaction")
                    HistoryJSON.writeHeader(of: group.transaction, to: &json)
                    json.name("contexts")
                    HistoryJSON.writeContexts(group.changes, of: group.transaction, &writer, to: &json)
                }
            }
        }
    }
}

extension ExpiredCall: HookCallJSON {
    package func write(to json: inout JSONBytes) {
        if let kept { return json.raw(kept) }
        json.object { json in
            header.write(to: &json)
            expiry.writeMembers(to: &json)
        }
    }
}

extension Expiry {
    /// Writes the members of a call that reports the expiry.
    func writeMembers(to json: inout JSONBytes) {
        json.member("reason", reason.rawValue)
        json.member("lost", lost)
        json.member("after", after)
        // Written only if some entities, not all, have to be read again.
        if !entities.isEmpty { json.member("entities", entities) }
    }
}

/// The request around a call's parameters.
package enum CallJSON {
    package enum Method: String, Sendable {
        case observe, merge, expired

        fileprivate var json: StaticString {
            switch self {
            case .observe: #""method":"observe","params":"#
            case .merge: #""method":"merge","params":"#
            case .expired: #""method":"expired","params":"#
            }
        }
    }

    /// A JSON-RPC 2.0 request on one line.
    package static func writeRequest(
        _ id: Int64, _ method: Method, to json: inout JSONBytes, params: (inout JSONBytes) -> Void
    ) {
        json.beginning(#"{"jsonrpc":"2.0","id":"#)
        json.integer(id)
        json.beginning(method.json)
        params(&json)
        json.end("}")
        json.endLine()
    }

    package static func writeRequest(
        _ id: Int64, method: String, to json: inout JSONBytes, params: (inout JSONBytes) -> Void
    ) {
        json.beginning(#"{"jsonrpc":"2.0","id":"#)
        json.integer(id)
        json.member("method", method)
        json.name("params")
        params(&json)
        json.end("}")
        json.endLine()
    }
}
