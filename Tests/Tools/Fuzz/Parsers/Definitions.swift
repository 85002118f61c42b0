/// An entity's description as it stands in a store: what is understood means the same when it is written again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let text = String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    guard let (entity, recordedBy) = try? EntityDefinition.entity(shape: 7, name: "person", text) else {
        return 0
    }
    let columns = Set(entity.columns.map(\.name))
    precondition(columns.isSuperset(of: entity.preserved.map(\.name)), text)
    switch entity.key {
    case .rowid: break
    case .column(let name): precondition(columns.contains(name), text)
    case .columns(let names): precondition(columns.isSuperset(of: names), text)
    }
    if let written = try? EntityDefinition.text(entity, recordedBy) {
        let again = try? EntityDefinition.entity(shape: 7, name: "person", written)
        precondition(again?.0 == entity && again?.1 == recordedBy, "\(text) is written as \(written)")
    }
    return 0
}
