extension HistoryJSON {
    /// The members `before` and `after`.
    static func writeMembers(of values: ChangeValues, to json: inout JSONBytes) {
        for (name, state) in [("before", values.before), ("after", values.after)] {
            guard let state else { continue }
            json.name(name)
            write(state, to: &json)
        }
    }

    package static func write(_ state: ChangeValues.State, to json: inout JSONBytes) {
        json.object { json in
            json.member("source", state.source.rawValue)
            json.name("values")
            json.object { json in
                for (column, value) in state.values {
                    json.name(column.name)
                    writeTyped(value, column, to: &json)
                }
            }
            if !state.omitted.isEmpty { json.member("omitted", state.omitted) }
        }
    }

    /// A value of a store of Core Data's, whose model says which values are Boolean.
    package static func writeTyped(_ value: HistoryValue, _ column: Entity.Column, to json: inout JSONBytes) {
        if column.declaredType == "Boolean", case .integer(let integer) = value {
            json.bool(integer != 0)
        } else {
            write(value, to: &json)
        }
    }
}
