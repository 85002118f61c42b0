import FoundationEssentials

/// Texts that stand in a store, or that programs hand back: origins, tokens, object ids, definitions.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = UnsafeBufferPointer(start: start, count: count)
    let text = String(decoding: bytes, as: UTF8.self)
    _ = Origin.declared(bytes).timestamp.description
    if let token = HistoryToken(text) { precondition(HistoryToken(token.description) == token, text) }
    if let url = ObjectIDURL(text) { _ = url }
    return 0
}
