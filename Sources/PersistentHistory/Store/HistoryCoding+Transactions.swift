extension ChangeOperation: Codable {}

extension Entity: Codable {
    private enum Member: String, CodingKey {
        case shape, name, columns, key, preserved, hasPlainTombstone, source
    }

    /// Reads a table as it was at one time.
    public convenience init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Member.self)
        self.init(
            shape: try members.decode(Int64.self, forKey: .shape),
            name: try members.decode(String.self, forKey: .name),
            columns: try members.decode([Column].self, forKey: .columns),
            key: try members.decode(Key.self, forKey: .key),
            preserved: try members.decode([Column].self, forKey: .preserved),
            hasPlainTombstone: try members.decode(Bool.self, forKey: .hasPlainTombstone),
            source: try members.decodeIfPresent(Source.self, forKey: .source) ?? .recorded)
    }

    /// Writes a table as it was at one time.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Member.self)
        try members.encode(shape, forKey: .shape)
        try members.encode(name, forKey: .name)
        try members.encode(columns, forKey: .columns)
        try members.encode(key, forKey: .key)
        try members.encode(preserved, forKey: .preserved)
        try members.encode(hasPlainTombstone, forKey: .hasPlainTombstone)
        if source != .recorded { try members.encode(source, forKey: .source) }
    }
}

extension ObjectID: Codable {
    private enum Member: String, CodingKey { case columns, values, isRowID }

    /// Reads a row's key.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Member.self)
        self.init(
            columns: try members.decode([String].self, forKey: .columns),
            values: try members.decode([HistoryValue].self, forKey: .values),
            isRowID: try members.decodeIfPresent(Bool.self, forKey: .isRowID) ?? false)
    }

    /// Writes a row's key.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Member.self)
        try members.encode(columns, forKey: .columns)
        try members.encode(values, forKey: .values)
        if isRowID { try members.encode(true, forKey: .isRowID) }
    }
}

extension Tombstone: Codable {
    private enum Member: String, CodingKey { case values, attributes, deletedDate }

    /// A column with its value.
    private struct Preserved: Codable {
        let column: Entity.Column
        let value: HistoryValue
    }

    /// Reads a tombstone. `attributes` follow from the values.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Member.self)
        self.init(
            values: try members.decode([Preserved].self, forKey: .values).map { ($0.column, $0.value) },
            deletedDate: try members.decode(HistoryTimestamp.self, forKey: .deletedDate))
    }

    /// Writes a tombstone, with the kit's `attributes` for readers elsewhere.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Member.self)
        try members.encode(values.map { Preserved(column: $0.column, value: $0.value) }, forKey: .values)
        try members.encode(attributes, forKey: .attributes)
        try members.encode(deletedDate, forKey: .deletedDate)
    }
}

extension HistoryTransaction: Codable {
    private enum Member: String, CodingKey {
        case token, author, context, processID, application, timestamp, changes, recreated
    }

    /// Reads a transaction with its changes.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Member.self)
        self.init(
            token: try members.decode(HistoryToken.self, forKey: .token),
            author: try members.decodeIfPresent(String.self, forKey: .author),
            context: try members.decodeIfPresent(String.self, forKey: .context),
            processID: try members.decodeIfPresent(Int32.self, forKey: .processID),
            timestamp: try members.decode(HistoryTimestamp.self, forKey: .timestamp),
            changes: try members.decode([HistoryChange].self, forKey: .changes),
            recreated: try members.decodeIfPresent([String].self, forKey: .recreated) ?? [],
            application: try members.decodeIfPresent(Application.self, forKey: .application))
    }

    /// Writes a transaction with its changes.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Member.self)
        try members.encode(token, forKey: .token)
        try members.encodeIfPresent(author, forKey: .author)
        try members.encodeIfPresent(context, forKey: .context)
        try members.encodeIfPresent(processID, forKey: .processID)
        try members.encodeIfPresent(application, forKey: .application)
        try members.encode(timestamp, forKey: .timestamp)
        try members.encode(changes, forKey: .changes)
        if !recreated.isEmpty { try members.encode(recreated, forKey: .recreated) }
    }
}
