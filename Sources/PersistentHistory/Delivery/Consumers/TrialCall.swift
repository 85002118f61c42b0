internal import Glibc

/// A call that tries a hook, with a past transaction or an invented one. It is marked as a sample, and
/// its delivery id begins with `test-`.
package struct TrialCall: Sendable {
    package let header: HookCallHeader
    private let hook: Hook
    private let contexts: [ContextDescription]

    package init(
        _ hook: Hook, store: String, consumer: String, delivery: String, contexts: [ContextDescription]
    ) {
        self.hook = hook
        self.contexts = contexts
        header = HookCallHeader(
            store: store, consumer: consumer, hook: hook.name, hookID: hook.id, delivery: "test-\(delivery)",
            largeIntegers: hook.endpoint.largeIntegers)
    }

    // MARK: With a past transaction

    /// The first call that a transaction makes to the hook.
    ///
    /// - Returns: The parameters; nil if nothing of the transaction is for the hook.
    /// - Throws: `HistoryError` if the token has expired or does not belong to the store.
    func parameters(of token: HistoryToken, in source: any HistorySource) throws -> [UInt8]? {
        try source.check(after: token)
        let start = try source.recorder?.start(of: token) ?? token.number
        let batch = try source.outlinedBatch(after: start - 1, through: token.number, values: hook.wantedRows)
        guard let transaction = batch.transactions.first else { return nil }
        switch hook.kind {
        case .observer:
            let plan = DeliveryPlan(
                [transaction], hooks: [hook], store: header.store, consumer: header.consumer,
                values: batch.values)
            guard var run = plan.runs.first else { return nil }
            if let unread = run.unread {
                let (changes, values) = try source.changes(unread)
                run = run.with(changes, values)
            }
            return run.calls.first.map { call in
                parameters(of: transaction, call.changes, part: call.part, values: call.values)
            }
        case .merge:
            guard let part = UnreadChanges.parts(of: transaction, values: hook.wantedValues).first else {
                let values = CallValues(batch.values, hook.wantedValues?.maximumBytes)
                return parameters(of: transaction, transaction.changes[...], part: nil, values: values)
            }
            let (changes, values) = try source.changes(part)
            return parameters(
                of: transaction.with(changes), changes[...], part: part.part,
                values: CallValues(values, hook.wantedValues?.maximumBytes))
        }
    }

    private func parameters(
        of transaction: HistoryTransaction, _ changes: ArraySlice<HistoryChange>, part: CallPart?,
        values: CallValues?
    ) -> [UInt8] {
        let call: any HookCallJSON =
            switch hook.kind {
            case .observer:
                ObserverCall(
                    header: header, transaction: transaction, changes: changes, part: part, values: values)
            case .merge:
                MergeCall(
                    header: header, transactions: [transaction], part: part, contexts: contexts, values: values)
            }
        // The first member of the object.
        return Array(#"{"sample":true,"#.utf8) + call.parameters.dropFirst()
    }

    // MARK: With an invented transaction

    /// An invented call. The plugin treats this change like any other, so its object is one that hardly
    /// exists in a store.
    ///
    /// - Parameter entities: The entities of the store. One for which the hook is called is chosen.
    package func invented(_ entities: [Entity] = []) -> [UInt8] {
        let known = entities.filter { hook.entity?.hasSameBytes(as: $0.name) ?? true }
        let entity =
            known.max { $0.shape < $1.shape }
            ?? Entity(
                shape: 1, name: hook.entity ?? "sample",
                columns: [Entity.Column(name: "id", declaredType: "INTEGER")],
                key: .column("id"), preserved: [])
        let operation = ChangeOperation.allCases.first { hook.operations.contains($0) } ?? .insert
        let (now, token) = (HistoryTimestamp.now, HistoryToken(store: .none, number: 1))
        let object = entity.inventedObject
        let transaction = HistoryTransaction(
            token: token, author: "historyctl", context: "test", processID: getpid(), timestamp: now,
            changes: [
                HistoryChange(
                    entity: entity, operation: operation, objectID: object,
                    changedProperties: operation == .update ? entity.columns.map(\.name) : [])
            ])
        let values = hook.wantedValues.map { wanted in
            RowValues(at: token, wanted, [BinaryText(entity.name): entity.inventedRows(object, operation)])
        }
        return parameters(
            of: transaction, transaction.changes[...], part: nil,
            values: CallValues(values, hook.wantedValues?.maximumBytes))
    }
}

extension Entity {
    fileprivate var inventedObject: ObjectID {
        let names = json.keyColumns
        return ObjectID(
            columns: names, values: names.map { inventedValue(of: $0) ?? .integer(-1) }, isRowID: key == .rowid)
    }

    fileprivate func inventedRows(_ object: ObjectID, _ operation: ChangeOperation) -> RowValues.Rows {
        guard operation != .delete else { return RowValues.Rows() }
        let row = RowValues.Row(
            names: RowNames(columns.map(\.name)), values: columns.map { inventedValue(of: $0.name) ?? .null },
            sizes: [:])
        guard let integer = object.integer(in: self) else {
            return RowValues.Rows(texts: [BinaryText(object.keyText): row])
        }
        return RowValues.Rows(integers: [integer: row])
    }

    /// - Returns: Nil if it is not a column.
    private func inventedValue(of name: String) -> HistoryValue? {
        guard let column = columns.first(where: { $0.name.hasSameBytes(as: name) }) else { return nil }
        return switch ColumnAffinity(declaredType: column.declaredType, isStrict: false) {
        case .integer, .numeric: .integer(-1)
        case .real: .real(-1)
        case .text: .text("sample")
        case .blob: key.columns.contains { $0.hasSameBytes(as: name) } ? .text("sample") : .null
        }
    }
}
