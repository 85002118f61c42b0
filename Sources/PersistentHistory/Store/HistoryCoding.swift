internal import FoundationEssentials

// Values of the history for a program's own files and messages: what is decoded equals what was encoded.
//
// The tools' JSON (`historyctl history`, calls of plugins, feeds) is another form, for reading.

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

    /// Writes ISO 8601 in UTC with milliseconds. A year that does not have four digits is not written so by
    /// everybody: then it is milliseconds since 1970.
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

extension HistoryValue: Codable {
    private enum Kind: String, CodingKey { case integer, real, text, invalidText, blob }

    /// Reads null, or an object with the value under its type.
    public init(from decoder: any Decoder) throws {
        if try decoder.singleValueContainer().decodeNil() {
            self = .null
            return
        }
        let values = try decoder.container(keyedBy: Kind.self)
        switch values.allKeys.first {
        case .integer?: self = .integer(try values.decode(Int64.self, forKey: .integer))
        case .real?:
            // Infinity is no number of JSON.
            if let text = try? values.decode(String.self, forKey: .real), let real = Double(text) {
                self = .real(real)
            } else {
                self = .real(try values.decode(Double.self, forKey: .real))
            }
        case .text?: self = .text(try values.decode(String.self, forKey: .text))
        case .invalidText?: self = .invalidText([UInt8](try values.decode(Data.self, forKey: .invalidText)))
        case .blob?: self = .blob([UInt8](try values.decode(Data.self, forKey: .blob)))
        case nil: throw decoder.mismatch("A value has none of the types that SQLite knows.")
        }
    }

    /// Writes null, or an object with the value under its type.
    public func encode(to encoder: any Encoder) throws {
        if case .null = self {
            var value = encoder.singleValueContainer()
            return try value.encodeNil()
        }
        var values = encoder.container(keyedBy: Kind.self)
        switch self {
        case .null: break
        case .integer(let integer): try values.encode(integer, forKey: .integer)
        case .real(let real) where real.isFinite: try values.encode(real, forKey: .real)
        case .real(let real): try values.encode("\(real)", forKey: .real)
        case .text(let text): try values.encode(text, forKey: .text)
        case .invalidText(let bytes): try values.encode(Data(bytes), forKey: .invalidText)
        case .blob(let bytes): try values.encode(Data(bytes), forKey: .blob)
        }
    }
}

extension Decoder {
    /// A value that has one text.
    fileprivate func readText<T>(_ name: String, _ value: (String) -> T?) throws -> T {
        let text = try singleValueContainer().decode(String.self)
        guard let value = value(text) else { throw mismatch("\"\(text)\" is no \(name).") }
        return value
    }

    fileprivate func mismatch(_ what: String) -> DecodingError {
        .dataCorrupted(DecodingError.Context(codingPath: codingPath, debugDescription: what))
    }
}

extension Encoder {
    fileprivate func writeText(_ text: String) throws {
        var value = singleValueContainer()
        try value.encode(text)
    }
}
