/// The reader of configurations and manifests: it gives a value or an error, which names a place in the text.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    _ = JSONReader.read(bytes)
    return 0
}
