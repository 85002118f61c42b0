import FoundationEssentials
import HistoryBase
import HistoryControl

/// A parsed line of the stream.
enum FeedLine {
    case begins(after: HistoryToken)
    case expired(Expiry)
    case transaction(FeedTransaction)
    /// A kind that this version does not know.
    case other

    /// - Throws: `ControlError` if the stream breaks off with one, `DecodingError`.
    init(_ line: ArraySlice<UInt8>) throws {
        if let error = try ControlFailure.error(in: line) { throw error }
        guard let message = JSONReader.read(Array(line)).root?.object else { throw unreadable("an object") }
        if let begins = message["begins"]?.object {
            self = .begins(after: try needed(begins["after"], "a token").token())
        } else if let expired = message["expired"]?.object {
            self = .expired(
                Expiry(
                    reason: expired["reason"]?.text.flatMap(Expiry.Reason.init) ?? .expired,
                    lost: try expired["lost"].flatMap { $0.isNull ? nil : try $0.token() },
                    after: try needed(expired["after"], "a token").token(),
                    entities: expired["entities"]?.array?.compactMap(\.text) ?? []))
        } else if let token = message["token"], let timestamp = message["timestamp"]?.text {
            self = .transaction(try Self.transaction(message, try token.token(), timestamp))
        } else {
            self = .other
        }
    }

    private static func transaction(
        _ message: [BinaryText: JSONValue], _ token: HistoryToken, _ timestamp: String
    ) throws -> FeedTransaction {
        var rows: [FeedObjectID: FeedRow] = [:]
        func objects(_ name: BinaryText) throws -> [FeedObjectID] {
            try (message[name]?.array ?? []).map { json in
                let (object, row) = try json.object()
                if let row { rows[object] = row }
                return object
            }
        }
        // A number, or a name in a store that Core Data writes.
        let (process, bundleID) = (message["processID"], message["bundleID"]?.text)
        let part = message["part"]?.object
        return FeedTransaction(
            token: token, author: message["author"]?.text, context: message["context"]?.text,
            processID: process?.number?.integer.flatMap { Int32(exactly: $0) },
            application: process?.text == nil && bundleID == nil
                ? nil : Application(process: process?.text, bundleID: bundleID),
            timestamp: timestamp, insertedObjectIDs: try objects("insertedObjectIDs"),
            updatedObjectIDs: try objects("updatedObjectIDs"),
            deletedObjectIDs: try objects("deletedObjectIDs"),
            values: rows, valuesAt: try message["valuesAt"].flatMap { $0.isNull ? nil : try $0.token() },
            part: try part.map {
                .init(
                    index: try needed($0["index"]?.number?.integer, "a number"),
                    isLast: try needed($0["last"]?.bool, "true or false"))
            })
    }
}

private func unreadable(_ expected: String) -> DecodingError {
    .dataCorrupted(
        .init(codingPath: [], debugDescription: "A feed's line has something else than \(expected)."))
}

private func needed<T>(_ value: T?, _ expected: String) throws -> T {
    guard let value else { throw unreadable(expected) }
    return value
}

extension JSONValue {
    fileprivate func token() throws -> HistoryToken { try needed(text.flatMap { HistoryToken($0) }, "a token") }

    fileprivate func object() throws -> (FeedObjectID, FeedRow?) {
        let members = try needed(object, "an object")
        let id = FeedObjectID(
            entityName: try needed(members["entityName"]?.text, "an entity's name"),
            objectID: try needed(members["objectID"]?.object, "a key").mapValues { try $0.value() },
            objectIDURL: try needed(members["objectIDURL"]?.text, "an object's URL"))
        let row = try members["values"]?.object.map { values in
            FeedRow(
                values: try values.mapValues { try $0.value() },
                cutValues: members["cutValues"]?.object?.compactMapValues { $0.number?.integer } ?? [:])
        }
        return (id, row)
    }

    /// Decodes a value: a number, null, text, a blob as `{"base64": "…"}`, or text that is not valid UTF-8 as
    /// `{"base64Text": "…"}`.
    private func value() throws -> HistoryValue {
        switch content {
        case .null: return .null
        case .string(let text): return .text(text)
        case .number(let number):
            // JSON has no infinities: they are written as numbers beyond a double's range, such as 9e999.
            let isReal = number.text.utf8.contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }
            if !isReal, let integer = Int64(number.text) { return .integer(integer) }
            return .real(Double(number.text) ?? (number.text.hasPrefix("-") ? -.infinity : .infinity))
        case .object:
            let members = object ?? [:]
            let (blob, text) = (members["base64"]?.text, members["base64Text"]?.text)
            let data = try needed((blob ?? text).flatMap { Data(base64Encoded: $0) }, "base64")
            return blob == nil ? .invalidText(Array(data)) : .blob(Array(data))
        case .bool, .array: throw unreadable("a value of SQLite")
        }
    }
}
