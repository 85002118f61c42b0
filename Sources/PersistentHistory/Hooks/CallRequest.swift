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
        json.name("method")
        json.string(method)
        json.name("params")
        params(&json)
        json.end("}")
        json.endLine()
    }
}
