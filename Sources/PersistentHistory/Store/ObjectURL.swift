/// How a row's identity is written as a URL: `x-history://<store id>/<entity>/<key>`. An object of Core Data has the URL
/// that Core Data gives it: `x-coredata://<store id>/<entity>/p42`.
///
/// The key's parts are joined by commas, each with its type in front: `p` an integer, `t` text,
/// `x` a blob in hexadecimal, `r` a real. A row known by its rowid is `p5` in a table without a
/// primary key, where nothing else can be meant, and `rowid5` where other rows are known by a key.
enum ObjectURL {
    /// The part that all rows of an entity share.
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
            for byte in blob {
                url.append(Hexadecimal.digit(byte >> 4))
                url.append(Hexadecimal.digit(byte & 15))
            }
        }
    }

    static func percentEncoded(_ text: String) -> [UInt8] {
        var bytes = ByteBuffer()
        appendPercentEncoded(text, to: &bytes)
        return bytes.array
    }

    /// Everything but the unreserved characters of RFC 3986, section 2.3, is encoded.
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
                url.append(Hexadecimal.digit(byte >> 4, upperCase: true))
                url.append(Hexadecimal.digit(byte & 15, upperCase: true))
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
