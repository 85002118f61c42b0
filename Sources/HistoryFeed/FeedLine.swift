import FoundationEssentials
import HistoryControl
import PersistentHistory

/// A line of the stream, read.
enum FeedLine {
    case begins(after: HistoryToken)
    case expired(Expiry)
    case transaction(FeedTransaction)
    /// Of a kind that this version does not know.
    case other

    /// - Throws: `ControlError` if the stream breaks off with one, `DecodingError`.
    init(_ line: ArraySlice<UInt8>) throws {
        if let error = try ControlFailure.error(in: line) { throw error }
        let message = try ControlJSON.read(Message.self, from: ExactLine.marked(in: line))
        if let begins = message.begins {
            self = .begins(after: begins.after.token)
        } else if let expired = message.expired {
            self = .expired(
                Expiry(
                    reason: Expiry.Reason(rawValue: expired.reason) ?? .expired, lost: expired.lost?.token,
                    after: expired.after.token, entities: expired.entities ?? []))
        } else if let token = message.token, let timestamp = message.timestamp {
            let changed = (message.insertedObjectIDs ?? []) + (message.updatedObjectIDs ?? [])
            let rows = changed.compactMap { object in object.row.map { (object.object, $0) } }
            self = .transaction(
                FeedTransaction(
                    token: token.token, author: message.author, context: message.context,
                    processID: message.processID?.number, application: message.application,
                    timestamp: timestamp,
                    insertedObjectIDs: message.insertedObjectIDs?.map(\.object) ?? [],
                    updatedObjectIDs: message.updatedObjectIDs?.map(\.object) ?? [],
                    deletedObjectIDs: message.deletedObjectIDs?.map(\.object) ?? [],
                    values: Dictionary(rows) { first, _ in first }, valuesAt: message.valuesAt?.token,
                    part: message.part))
        } else {
            self = .other
        }
    }
}

private struct Message: Decodable {
    /// A number, or a name, which a store that Core Data writes has.
    enum Process: Decodable {
        case number(Int32)
        case name(String)

        init(from decoder: any Decoder) throws {
            let value = try decoder.singleValueContainer()
            if let number = try? value.decode(Int32.self) {
                self = .number(number)
            } else {
                self = .name(try value.decode(String.self))
            }
        }

        var number: Int32? { if case .number(let number) = self { number } else { nil } }
        var name: String? { if case .name(let name) = self { name } else { nil } }
    }

    var application: Application? {
        if processID?.name == nil, bundleID == nil { return nil }
        return Application(process: processID?.name, bundleID: bundleID)
    }

    struct Begins: Decodable { let after: Token }

    struct Expired: Decodable {
        let reason: String
        let lost: Token?
        let after: Token
        let entities: [String]?
    }

    let begins: Begins?
    let expired: Expired?
    let token: Token?
    let author: String?
    let context: String?
    let processID: Process?
    let bundleID: String?
    let timestamp: String?
    let valuesAt: Token?
    let insertedObjectIDs: [Object]?
    let updatedObjectIDs: [Object]?
    let deletedObjectIDs: [Object]?
    let part: FeedTransaction.Part?
}

private struct Token: Decodable {
    let token: HistoryToken

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let token = HistoryToken(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "This is not a token.")
        }
        self.token = token
    }
}

private struct Object: Decodable {
    let entityName: String
    let objectID: [String: Value]
    let objectIDURL: String
    let values: [String: Value]?
    let cutValues: [String: Int]?

    var row: FeedRow? {
        values.map {
            FeedRow(values: columns($0).mapValues(\.value), cutValues: cutValues.map(columns) ?? [:])
        }
    }

    var object: FeedObjectID {
        FeedObjectID(
            entityName: entityName, objectID: columns(objectID).mapValues(\.value), objectIDURL: objectIDURL)
    }

    private func columns<T>(_ members: [String: T]) -> [BinaryText: T] {
        Dictionary(members.map { (ExactLine.name(ofKey: $0), $1) }) { first, _ in first }
    }
}

/// Numbers as numbers, null as null, a blob as `{"base64": "…"}`, text that is not valid UTF-8
/// as `{"base64Text": "…"}`.
private struct Value: Decodable {
    let value: HistoryValue

    private enum CodingKeys: CodingKey { case base64, base64Text, infinite, real }

    init(from decoder: any Decoder) throws {
        if let keyed = try? decoder.container(keyedBy: CodingKeys.self) {
            if let sign = try keyed.decodeIfPresent(Int.self, forKey: .infinite) {
                value = .real(sign < 0 ? -.infinity : .infinity)
                return
            }
            if let real = try keyed.decodeIfPresent(Double.self, forKey: .real) {
                value = .real(real)
                return
            }
            let isText = keyed.contains(.base64Text)
            let text = try keyed.decode(String.self, forKey: isText ? .base64Text : .base64)
            guard let data = Data(base64Encoded: text) else {
                throw DecodingError.dataCorruptedError(
                    forKey: isText ? .base64Text : .base64, in: keyed, debugDescription: "This is not base64.")
            }
            value = isText ? .invalidText(Array(data)) : .blob(Array(data))
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            value = .null
        } else if let integer = try? container.decode(Int64.self) {
            value = .integer(integer)
        } else if let real = try? container.decode(Double.self) {
            value = .real(real)
        } else {
            value = .text(try container.decode(String.self))
        }
    }
}
