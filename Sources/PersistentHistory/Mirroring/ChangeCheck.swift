internal import FoundationEssentials

/// Whether a history row can be read as a change by everything behind the mirror. It comes from the network.
struct ChangeCheck {
    private let shapes: [Int64: Entity]
    private let encoding: StoreEncoding
    /// Consecutive rows are usually of one kind. Nil where object and detail have to be looked at.
    private var plainKind: Int64?

    init(_ shapes: [Int64: Entity], _ encoding: StoreEncoding) {
        self.shapes = shapes
        self.encoding = encoding
    }

    /// - Throws: `MirrorError.malformed`.
    mutating func check(kind: Int64, object: LineValue, detail: LineValue) throws(MirrorError) {
        if kind == plainKind { return }
        if kind & 3 == 3 { return try checkVoid(kind, object, detail) }
        guard let entity = shapes[kind >> 2] else {
            throw .malformed("a change has the shape \(kind >> 2), which the schema does not describe")
        }
        let hasList = kind & 3 == 2 && !entity.preserved.isEmpty && !entity.hasPlainTombstone
        if case .columns(let names) = entity.key {
            let isRowid = text(object)?.hasPrefix("rowid:") ?? false
            guard isRowid || isList(object, of: names.count) else {
                throw .malformed("a change of \"\(entity.name)\" does not name its row")
            }
        } else if !hasList {
            plainKind = kind
        }
        guard !hasList || isList(detail, of: entity.preserved.count) else {
            throw .malformed("a change of \"\(entity.name)\" has another number of preserved values")
        }
    }

    /// See `UnrecordedChanges`.
    private func checkVoid(_ kind: Int64, _ object: LineValue, _ detail: LineValue) throws(MirrorError) {
        guard kind == RecordingFormat.kind(shape: 0, .void), text(object) == UnrecordedChanges.object,
            let names = text(detail)
        else { return }
        guard let names = try? JSONDecoder().decode([String].self, from: Data(names.utf8)), !names.isEmpty
        else {
            throw .malformed("a note of unrecorded changes names no entities")
        }
    }

    private func isList(_ value: LineValue, of count: Int) -> Bool {
        text(value).flatMap { ValueList.values($0, encoding: encoding) }?.count == count
    }

    private func text(_ value: LineValue) -> String? {
        if case .text(let text) = value.copy { text } else { nil }
    }
}
