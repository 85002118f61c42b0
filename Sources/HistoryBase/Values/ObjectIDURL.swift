/// A row's address, read back from the text that `HistoryJSON.objectIDURL` writes.
public struct ObjectIDURL: Sendable, CustomStringConvertible {
    /// The store that the row is in.
    public let store: StoreID
    /// The table that the row is in.
    public let entityName: String
    private let key: Key

    private enum Key: Hashable {
        case values([HistoryValue])
        case rowid(Int64)
    }

    private let prefix: String

    /// Parses `x-history://<store id>/<entity>/<key>`, or the same with `x-coredata`; nil if the text has another form.
    public init?(_ text: String) {
        guard let prefix = ["x-history://", "x-coredata://"].first(where: { text.hasBytePrefix($0) }) else {
            return nil
        }
        self.prefix = prefix
        let parts = text.utf8.dropFirst(prefix.utf8.count).split(
            separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count == 3, let store = Self.percentDecoded(parts[0]).flatMap({ StoreID($0) }),
            let entity = Self.percentDecoded(parts[1]),
            let key = Self.key(parts[2])
        else { return nil }
        self.store = store
        entityName = entity
        self.key = key
    }

    /// The row's id in one shape of its entity; nil if that shape has another kind of key.
    public func objectID(in entity: Entity) -> ObjectID? { objectID(keyedBy: entity.key) }

    func objectID(keyedBy entityKey: Entity.Key) -> ObjectID? {
        switch (key, entityKey) {
        case (.values(let values), .rowid) where values.count == 1:
            ObjectID(columns: ["rowid"], values: values, isRowID: true)
        case (.values(let values), .column(let name)) where values.count == 1:
            ObjectID(columns: [name], values: values)
        case (.values(let values), .columns(let names)) where values.count == names.count:
            ObjectID(columns: names, values: values)
        case (.rowid(let rowid), .columns):
            ObjectID(columns: ["rowid"], values: [.integer(rowid)], isRowID: true)
        default: nil
        }
    }

    /// `x-history://<store id>/<entity>/<key>`.
    public var description: String {
        var text = ByteBuffer()
        text.append("\(prefix)\(store.text)/" as String)
        text.append(ObjectURL.percentEncoded(entityName))
        text.append(UInt8(ascii: "/"))
        switch key {
        case .values(let values): ObjectURL.appendKey(values, to: &text)
        case .rowid(let rowid): text.append("rowid\(rowid)" as String)
        }
        return text.text
    }

    // MARK: The key

    private static func key(_ text: Substring.UTF8View) -> Key? {
        if text.starts(with: "rowid".utf8) {
            return Int64(String(decoding: text.dropFirst(5), as: UTF8.self)).map { .rowid($0) }
        }
        var values: [HistoryValue] = []
        for part in text.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            guard let value = value(part) else { return nil }
            values.append(value)
        }
        return .values(values)
    }

    private static func value(_ part: Substring.UTF8View) -> HistoryValue? {
        let rest = part.dropFirst()
        switch part.first {
        case UInt8(ascii: "p"): return Int64(String(decoding: rest, as: UTF8.self)).map { .integer($0) }
        case UInt8(ascii: "r"): return Double(String(decoding: rest, as: UTF8.self)).map { .real($0) }
        case UInt8(ascii: "t"): return percentDecodedBytes(rest).map { HistoryValue(textOf: $0) }
        case UInt8(ascii: "x"): return Hexadecimal.bytes(rest).map { .blob($0) }
        default: return nil
        }
    }

    private static func percentDecoded(_ text: Substring.UTF8View) -> String? {
        percentDecodedBytes(text).flatMap { String(validating: $0, as: UTF8.self) }
    }

    private static func percentDecodedBytes(_ text: Substring.UTF8View) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard let escaped = Hexadecimal.bytes(rest.prefix(2)), escaped.count == 1 else { return nil }
                bytes += escaped
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }
}

extension ObjectIDURL: Hashable {
    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        a.store == b.store && a.entityName.hasSameBytes(as: b.entityName) && a.key == b.key
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(store)
        hasher.combine(bytesOf: entityName)
        hasher.combine(key)
    }
}

/// Writes a row's identity as a URL: `x-history://<store id>/<entity>/<key>`. An object of Core Data has
/// the URL that Core Data gives it: `x-coredata://<store id>/<entity>/p42`.
///
/// The key's parts are joined by commas, each prefixed by its type: `p` an integer, `t` text, `x` a blob
/// in hexadecimal, `r` a real. A row that is identified by its rowid is `p5` in a table without a primary
/// key, and `rowid5` in a table where a key identifies other rows.
enum ObjectURL {
    /// The part that all rows of an entity have in common.
    @inline(__always) static func appendPrefix(store: StoreID, entity: Entity, to url: inout ByteBuffer) {
        url.append(entity.json.urlScheme)
        url.append(store)
        url.append(entity.json.urlName)
    }

    static func append(_ objectID: ObjectID, of entity: Entity, to url: inout ByteBuffer) {
        if objectID.isRowID && entity.key != .rowid { url.append("rowid") }
        guard let value = objectID.onlyValue else { return appendKey(objectID.values, to: &url) }
        if objectID.isRowID && entity.key != .rowid, case .integer(let rowid) = value {
            url.append(decimal: rowid)
        } else {
            append(value, to: &url)
        }
    }

    static func appendKey(_ values: [HistoryValue], to url: inout ByteBuffer) {
        for (index, value) in values.enumerated() {
            if index > 0 { url.append(UInt8(ascii: ",")) }
            append(value, to: &url)
        }
    }

    static func append(_ value: HistoryValue, to url: inout ByteBuffer) {
        switch value {
        case .null: break  // A key with a null in it is known by its rowid.
        case .integer(let integer):
            url.append(UInt8(ascii: "p"))
            url.append(decimal: integer)
        case .real(let real):
            url.append(UInt8(ascii: "r"))
            url.append(real.shortestText)
        case .text(let text):
            url.append(UInt8(ascii: "t"))
            appendPercentEncoded(text, to: &url)
        case .invalidText(let bytes):
            url.append(UInt8(ascii: "t"))
            bytes.withUnsafeBufferPointer { appendPercentEncoded($0, to: &url) }
        case .blob(let blob):
            url.append(UInt8(ascii: "x"))
            for byte in blob { Hexadecimal.append(byte, to: &url) }
        }
    }

    static func percentEncoded(_ text: String) -> [UInt8] {
        var bytes = ByteBuffer()
        appendPercentEncoded(text, to: &bytes)
        return bytes.array
    }

    /// Encodes all characters except the unreserved ones of RFC 3986, section 2.3.
    private static func appendPercentEncoded(_ text: String, to url: inout ByteBuffer) {
        var text = text
        text.withUTF8 { appendPercentEncoded($0, to: &url) }
    }

    private static func appendPercentEncoded(_ bytes: UnsafeBufferPointer<UInt8>, to url: inout ByteBuffer) {
        if bytes.allSatisfy(isUnreserved) { return url.append(bytes) }
        for byte in bytes {
            if isUnreserved(byte) {
                url.append(byte)
            } else {
                url.append(UInt8(ascii: "%"))
                Hexadecimal.append(byte, upperCase: true, to: &url)
            }
        }
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }
}

extension ObjectID {
    /// The key if it is a single integer and unambiguous.
    package func integer(in entity: Entity) -> Int64? {
        switch entity.key {
        case .rowid, .column: if case .integer(let integer)? = onlyValue { integer } else { nil }
        case .columns: nil
        }
    }

    /// The key as in the object's URL: it identifies the object within its entity.
    package var keyText: String {
        if isRowID, case .integer(let rowid)? = values.first { return "rowid\(rowid)" }
        var text = ByteBuffer()
        ObjectURL.appendKey(values, to: &text)
        return text.text
    }

    /// Parses the text; nil if the entity now has another kind of key.
    package init?(keyText: String, keyedBy key: Entity.Key) {
        if key == .rowid, keyText.hasPrefix("rowid"), let rowid = Int64(keyText.dropFirst(5)) {
            self.init(columns: ["rowid"], values: [.integer(rowid)], isRowID: true)
        } else if let object = ObjectIDURL("x-history://\(StoreID.none)/-/\(keyText)")?.objectID(keyedBy: key) {
            self = object
        } else {
            return nil
        }
    }
}
