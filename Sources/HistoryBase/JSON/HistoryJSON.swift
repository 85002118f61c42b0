/// Writes the history's values in the form that `historyctl` prints and plugins read.
///
/// The form is defined in one place, so an object id looks the same in a log, in a hook's call and on a
/// terminal. Everything is written directly as bytes.
package enum HistoryJSON {
    // MARK: Values and identities

    /// Writes numbers as numbers, null as null, a blob as `{"base64":"…"}`, and text that is not valid
    /// UTF-8, which JSON cannot hold, as `{"base64Text":"…"}`.
    package static func write(_ value: HistoryValue, to json: inout JSONBytes) {
        switch value {
        case .null: json.null()
        case .integer(let integer):
            if json.largeIntegers == .text, LargeIntegers.isLarge(integer) {
                json.plainString { $0.append(decimal: integer) }
            } else {
                json.integer(integer)
            }
        case .real(let real): json.real(real)
        case .text(let text): json.string(text)
        case .invalidText(let bytes):
            json.object { json in
                json.name("base64Text")
                json.base64(bytes)
            }
        case .blob(let blob):
            json.object { json in
                json.name("base64")
                json.base64(blob)
            }
        }
    }

    /// `{"id":42}`: the key's columns and values.
    package static func write(_ objectID: ObjectID, to json: inout JSONBytes) {
        json.object { json in
            for (column, value) in zip(objectID.columns, objectID.values) {
                json.name(column)
                write(value, to: &json)
            }
        }
    }

    /// `x-history://<store id>/<entity>/p42`, or `x-coredata://…`, an address of the row that is unique among stores.
    package static func objectIDURL(of objectID: ObjectID, in entity: Entity, store: StoreID) -> String {
        var url = ByteBuffer()
        ObjectURL.appendPrefix(store: store, entity: entity, to: &url)
        ObjectURL.append(objectID, of: entity, to: &url)
        return url.text
    }

    // MARK: Tombstones

    /// - Parameters:
    ///   - isTyped: Whether the model says which values are Boolean.
    ///   - isDated: Whether the time of the delete is known.
    package static func write(
        _ tombstone: Tombstone, isTyped: Bool = false, isDated: Bool = true, to json: inout JSONBytes
    ) {
        json.object { json in
            json.name("attributes")
            json.object { json in
                for (column, value) in tombstone.values {
                    guard let text = TombstoneText.text(of: value, declaredType: column.declaredType) else {
                        continue
                    }
                    json.name(column.name)
                    json.string(text)
                }
            }
            json.name("values")
            json.object { json in
                for (column, value) in tombstone.values {
                    json.name(column.name)
                    if isTyped { writeTyped(value, column, to: &json) } else { write(value, to: &json) }
                }
            }
            guard isDated else { return }
            json.name("deletedDate")
            write(tombstone.deletedDate, to: &json)
        }
    }

    // MARK: Changes and transactions

    package static func write(_ change: HistoryChange, of store: StoreID, to json: inout JSONBytes) {
        var noValues: ValueWriter?
        json.object { json in
            withUnsafePointer(to: change) { writeMembers(of: $0, store, &noValues, to: &json) }
        }
    }

    /// `token`, `author`, `context`, `processID`, `timestamp`: a transaction without its changes.
    package static func writeHeader(of transaction: HistoryTransaction, to json: inout JSONBytes) {
        json.object { writeHeaderMembers(of: transaction, to: &$0) }
    }

    /// The whole transaction, with its `changes`.
    package static func write(_ transaction: HistoryTransaction, to json: inout JSONBytes) {
        var noValues: ValueWriter?
        write(transaction, &noValues, to: &json)
    }

    /// Writes some changes of a transaction. All parts in order make up the whole transaction.
    package static func write(
        _ changes: [HistoryChange], of transaction: HistoryTransaction, isFirst: Bool, isLast: Bool,
        to json: inout JSONBytes
    ) {
        if isFirst {
            json.beginning("{")
            writeHeaderMembers(of: transaction, to: &json)
            json.name("changes")
            json.beginning("[")
        } else {
            // What follows is not the first element of its array.
            json.end("")
        }
        let store = transaction.token.store
        for change in changes { write(change, of: store, to: &json) }
        if isLast { json.end("]}") }
    }

    /// The same, with the rows of the changed objects.
    package static func write(
        _ transaction: HistoryTransaction, _ values: inout ValueWriter?, to json: inout JSONBytes
    ) {
        json.object { json in
            writeHeaderMembers(of: transaction, to: &json)
            json.name("changes")
            json.array { json in
                let store = transaction.token.store
                forEach(transaction.changes[...]) { change in
                    json.object { writeMembers(of: change, store, &values, to: &$0) }
                }
            }
            if transaction.recreated.isEmpty { return }
            json.member("recreated", transaction.recreated)
        }
    }

    /// Writes the array that an observer receives: for each change the entity, the operation and the
    /// object, with the time and the author of its transaction.
    package static func writeContexts(
        _ changes: ArraySlice<HistoryChange>, of transaction: HistoryTransaction,
        _ values: inout ValueWriter?, to json: inout JSONBytes
    ) {
        let (store, timestamp) = (transaction.token.store, transaction.timestamp)
        let author = transaction.authorship.authorJSON
        json.array { json in
            forEach(changes) { change in
                json.object { json in
                    writeMembers(of: change, store, &values, to: &json)
                    json.name("timestamp")
                    write(timestamp, to: &json)
                    json.raw(author)
                }
            }
        }
    }

    package static func writeHeaderMembers(of transaction: HistoryTransaction, to json: inout JSONBytes) {
        json.name("token")
        write(transaction.token, to: &json)
        json.raw(transaction.authorship.json)
        if transaction.application != nil {
            json.raw(transaction.authorship.applicationJSON)
        } else {
            json.name("processID")
            if let processID = transaction.processID { json.integer(Int(processID)) } else { json.null() }
        }
        json.name("timestamp")
        write(transaction.timestamp, to: &json)
    }

    /// Visits changes by index: copying one would count the references to everything in it.
    @inline(__always) private static func forEach(
        _ changes: ArraySlice<HistoryChange>, _ body: (UnsafePointer<HistoryChange>) -> Void
    ) {
        changes.withUnsafeBufferPointer { buffer in
            guard var change = buffer.baseAddress else { return }
            for _ in 0..<buffer.count {
                body(change)
                change += 1
            }
        }
    }

    private static func writeMembers(
        of change: UnsafePointer<HistoryChange>, _ store: StoreID, _ values: inout ValueWriter?,
        to json: inout JSONBytes
    ) {
        let (entity, operation) = (change.pointee.entity, change.pointee.operation)
        json.members(entity.json.beginning(operation))
        if !change.pointee.objectID.isRowID || entity.key == .rowid,
            let value = change.pointee.objectID.onlyValue
        {
            json.object(beginning: entity.json.keyBeginning) { write(value, to: &$0) }
            json.name("objectIDURL")
            json.plainString { url in
                ObjectURL.appendPrefix(store: store, entity: entity, to: &url)
                ObjectURL.append(value, to: &url)
            }
        } else {
            let objectID = change.pointee.objectID
            write(objectID, to: &json)
            writeURL(of: objectID, in: entity, store, to: &json)
        }
        if let label = change.pointee.label { json.member("label", label) }
        if operation == .update {
            json.member("changedProperties", change.pointee.changedProperties)
            if let unnamed = change.pointee.unnamedProperties { writeUnnamed(unnamed, to: &json) }
        }
        if let values = change.pointee.values { writeMembers(of: values, to: &json) }
        if operation == .delete {
            guard let tombstone = change.pointee.tombstone else { return }
            json.name("tombstone")
            write(tombstone, isTyped: entity.source == .coreData, to: &json)
        } else {
            values?.write(change.pointee.objectID, of: entity, to: &json)
        }
    }

    /// The member `objectIDURL`.
    package static func writeURL(
        of objectID: ObjectID, in entity: Entity, _ store: StoreID, to json: inout JSONBytes
    ) {
        json.name("objectIDURL")
        json.plainString { url in
            ObjectURL.appendPrefix(store: store, entity: entity, to: &url)
            ObjectURL.append(objectID, of: entity, to: &url)
        }
    }

    /// Says that more has changed than has a name.
    private static func writeUnnamed(_ properties: [String], to json: inout JSONBytes) {
        json.member("changedPropertiesUnknown", true)
        if properties.isEmpty { return }
        json.member("unnamedProperties", properties)
    }

    // MARK: Positions and times

    package static func write(_ token: HistoryToken, to json: inout JSONBytes) {
        json.plainString { bytes in
            bytes.append(token.store)
            bytes.append(UInt8(ascii: ":"))
            bytes.append(decimal: token.number)
        }
    }

    package static func write(_ timestamp: HistoryTimestamp, to json: inout JSONBytes) {
        json.timestamp(timestamp)
    }
}
