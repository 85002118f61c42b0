import FoundationEssentials

/// Takes the parameters of a query one by one, and reports those that were not expected.
struct QueryReader {
    private var values: [String: String] = [:]

    /// An empty value is refused: an empty store name, for instance from an unset variable, must not stand for
    /// all stores, nor `?dryRun` for `dryRun=false`.
    init(_ items: [URLQueryItem]) throws(ControlError) {
        for item in items {
            guard let value = item.value, !value.isEmpty else {
                throw ControlError(.badRequest, "\"\(item.name)\" is empty.")
            }
            guard values.updateValue(value, forKey: item.name) == nil else {
                throw ControlError(.badRequest, "\"\(item.name)\" is given twice.")
            }
        }
    }

    /// Nil if it is missing.
    mutating func take(_ name: String) -> String? { values.removeValue(forKey: name) }

    mutating func need(_ name: String) throws(ControlError) -> String {
        guard let value = take(name) else { throw ControlError(.badRequest, "\"\(name)\" is missing.") }
        return value
    }

    mutating func flag(_ name: String) throws(ControlError) -> Bool {
        switch take(name) {
        case nil, "false": return false
        case "true": return true
        case let other?:
            throw ControlError(.badRequest, "\"\(name)\" is \"true\" or \"false\", not \"\(other)\".")
        }
    }

    mutating func uuid(_ name: String) throws(ControlError) -> UUID? {
        guard let text = take(name) else { return nil }
        guard let id = UUID(uuidString: text) else {
            throw ControlError(.badRequest, "\"\(name)\" must be a hook's id, not \"\(text)\".")
        }
        return id
    }

    func finish() throws(ControlError) {
        guard let name = values.keys.min() else { return }
        throw ControlError(.badRequest, "\"\(name)\" is not a parameter of this request.")
    }
}

extension FeedRequest {
    init(_ query: inout QueryReader) throws(ControlError) {
        self.init(
            store: query.take("store"), consumer: try query.need("consumer"),
            context: try query.need("context")
        )
    }

    var query: ControlRoute.Query {
        [("store", store), ("consumer", consumer), ("context", context)]
    }
}

extension HookSelection {
    var query: ControlRoute.Query {
        let which: ControlRoute.Query =
            switch which {
            case .id(let id): [("id", id.uuidString)]
            case .pair(let entity, let operation): [("entity", entity), ("operation", operation)]
            case .all: [("all", "true")]
            }
        return which + [("kind", kind)]
    }

    init(_ query: inout QueryReader) throws(ControlError) {
        let id = try query.uuid("id")
        let entity = query.take("entity")
        let operation = query.take("operation")
        let all = try query.flag("all")
        switch (id, entity, operation, all) {
        case (let id?, nil, nil, false): which = .id(id)
        case (nil, let entity?, let operation?, false):
            which = .pair(entity: entity, operation: operation)
        case (nil, nil, nil, true): which = .all
        default:
            throw ControlError(
                .badRequest, "Say which hooks: by \"id\", by \"entity\" and \"operation\", or \"all\".")
        }
        kind = query.take("kind")
        if let kind, kind != "observer", kind != "merge" {
            throw ControlError(.badRequest, "\"kind\" is \"observer\" or \"merge\", not \"\(kind)\".")
        }
        if let operation, !["insert", "update", "delete"].contains(operation) {
            throw ControlError(
                .badRequest, "\"operation\" is \"insert\", \"update\" or \"delete\", not \"\(operation)\".")
        }
    }
}

extension DeadLetterSelection {
    var query: ControlRoute.Query {
        [("id", id), ("all", id == nil ? "true" : nil), ("store", store)]
    }

    init(_ query: inout QueryReader) throws(ControlError) {
        id = query.take("id")
        let all = try query.flag("all")
        store = query.take("store")
        guard (id != nil) != all, id == nil || store == nil else {
            throw ControlError(
                .badRequest, "Say which dead letters: by \"id\", or \"all\", of a \"store\" or not.")
        }
    }
}
