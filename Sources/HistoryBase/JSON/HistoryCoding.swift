// Identifiers of a history are encoded as text in a program's own files and messages, and decode to equal
// values. A whole history has only one external form: the tools' JSON (see `HistoryJSON`).

extension StoreID: Codable {
    /// Reads the id's text.
    public init(from decoder: any Decoder) throws {
        self = try decoder.readText("store's id") { StoreID($0) }
    }

    /// Writes the id's text.
    public func encode(to encoder: any Encoder) throws { try encoder.writeText(text) }
}

extension HistoryToken: Codable {
    /// Reads `<store id>:<number>`.
    public init(from decoder: any Decoder) throws {
        self = try decoder.readText("token") { HistoryToken($0) }
    }

    /// Writes `<store id>:<number>`.
    public func encode(to encoder: any Encoder) throws { try encoder.writeText(description) }
}

extension HistoryTimestamp: Codable {
    /// Reads ISO 8601 in UTC, or milliseconds since 1970.
    public init(from decoder: any Decoder) throws {
        if let milliseconds = try? decoder.singleValueContainer().decode(Int64.self) {
            self.init(milliseconds: milliseconds)
        } else {
            self = try decoder.readText("time") { HistoryTimestamp(iso8601: $0) }
        }
    }

    /// Writes ISO 8601 in UTC with milliseconds. For a year without four digits, which not every reader
    /// accepts in ISO 8601, it writes milliseconds since 1970.
    public func encode(to encoder: any Encoder) throws {
        let text = description
        if HistoryTimestamp(iso8601: text) == self { return try encoder.writeText(text) }
        var value = encoder.singleValueContainer()
        try value.encode(milliseconds)
    }
}

extension ObjectIDURL: Codable {
    /// Reads the URL's text.
    public init(from decoder: any Decoder) throws {
        self = try decoder.readText("object's URL") { ObjectIDURL($0) }
    }

    /// Writes the URL's text.
    public func encode(to encoder: any Encoder) throws { try encoder.writeText(description) }
}

extension Decoder {
    /// Decodes a value that is encoded as text.
    fileprivate func readText<T>(_ name: String, _ value: (String) -> T?) throws -> T {
        let text = try singleValueContainer().decode(String.self)
        if let value = value(text) { return value }
        throw DecodingError.dataCorrupted(
            .init(codingPath: codingPath, debugDescription: "\"\(text)\" is no \(name)."))
    }
}

extension Encoder {
    fileprivate func writeText(_ text: String) throws {
        var value = singleValueContainer()
        try value.encode(text)
    }
}
