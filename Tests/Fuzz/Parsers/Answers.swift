import PersistentHistory

/// What plugins print: cut into lines wherever the pieces end, and each line read as an answer.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    let limit = 200
    var (whole, pieces): ([[UInt8]], [[UInt8]]) = ([], [])
    var splitter = LineSplitter(limit: limit)
    splitter.split(bytes[...]) { line, _ in whole.append(Array(line)) }
    splitter.finish { line, _ in whole.append(Array(line)) }
    splitter = LineSplitter(limit: limit)
    let size = 1 + Int(bytes.first ?? 0) % 17
    var rest = bytes[...]
    while !rest.isEmpty {
        splitter.split(rest.prefix(size)) { line, _ in pieces.append(Array(line)) }
        rest = rest.dropFirst(size)
    }
    splitter.finish { line, _ in pieces.append(Array(line)) }
    precondition(whole == pieces, "The lines depend on how they come.")
    precondition(whole.allSatisfy { $0.count <= limit }, "A line is longer than the limit.")
    for line in whole {
        if let answer = PluginAnswer(line: line[...]) { _ = try? MergeResult(answer.outcome, from: "p/h") }
        _ = try? MergeResult(printed: line, by: "p/h")
    }
    return 0
}
