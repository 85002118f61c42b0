import PersistentHistory

extension Fields {
    /// Decodes `properties` and `where`, which select the changes of one entity.
    ///
    /// - Parameters:
    ///   - isOfOneEntity: Whether one entity is named, to whose columns they refer.
    ///   - naming: How an entity is named, for messages.
    func filter(isOfOneEntity: Bool, _ naming: String) -> (properties: [String]?, condition: String?) {
        if !isOfOneEntity {
            for key in ["properties", "where"] {
                refuse(key, "the columns of one entity are meant: name it by \(naming)")
            }
        }
        let properties = self["properties"]?.names("a list of column names", of: "column")
        let condition = self["where"].flatMap { node in
            node.string(expected: Self.expression).flatMap { text -> String? in
                if let problem = RowCondition.problem(of: text) {
                    node.report("expected \(Self.expression): \(problem)")
                    return nil
                }
                return text
            }
        }
        return (properties, condition)
    }

    private static let expression = "an SQL expression over the columns of a row, such as \"status = 'paid'\""
}

extension JSONValue {
    /// Whether it is a list of one string.
    var isListOfOne: Bool {
        guard case .array(let values) = content, values.count == 1, case .string = values[0].content else {
            return false
        }
        return true
    }
}
