import FoundationEssentials
package import PersistentHistory

/// The `params` of a hook's call, and the request around them.
package enum CallJSON {
    package enum Method: String, Sendable {
        case observe, merge
    }

    package static func write(_ call: ObserverCall, to json: inout JSONBytes) {
        json.object { json in
            write(call.header, to: &json)
            if let part = call.part {
                json.name("part")
                json.object { json in
                    json.name("index")
                    json.integer(part.index)
                    json.name("last")
                    json.bool(part.isLast)
                }
            }
            json.name("transaction")
            HistoryJSON.writeHeader(of: call.transaction, to: &json)
            json.name("contexts")
            HistoryJSON.writeContexts(call.changes, of: call.transaction, to: &json)
        }
    }

    package static func write(_ call: MergeCall, to json: inout JSONBytes) {
        json.object { json in
            write(call.header, to: &json)
            json.name("transactions")
            json.array { json in
                for transaction in call.transactions { HistoryJSON.write(transaction, to: &json) }
            }
            json.name("contexts")
            json.array { json in
                for context in call.contexts {
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

    /// A JSON-RPC 2.0 request on one line.
    package static func writeRequest(
        _ id: Int64, _ method: Method, to json: inout JSONBytes, params: (inout JSONBytes) -> Void
    ) {
        json.object { json in
            json.name("jsonrpc")
            json.string("2.0")
            json.name("id")
            json.integer(id)
            json.name("method")
            json.string(method.rawValue)
            json.name("params")
            params(&json)
        }
        json.endLine()
    }

    private static func write(_ header: HookCallHeader, to json: inout JSONBytes) {
        json.name("store")
        json.string(header.store)
        json.name("consumer")
        json.string(header.consumer)
        json.name("hook")
        json.string(header.hook)
        json.name("hookID")
        json.string(header.hookID.uuidString)
        json.name("delivery")
        json.string(header.delivery)
    }
}
