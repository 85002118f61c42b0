import PersistentHistory

/// What plugins print: cut into lines wherever the pieces end, and each line read as an answer.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    let limit = 200
    let whole = lines(in: bytes, piece: max(1, count), limit: limit)
    let pieces = lines(in: bytes, piece: 1 + Int(bytes.first ?? 0) % 17, limit: limit)
    precondition(whole == pieces, "The lines depend on how they come.")
    precondition(whole.allSatisfy { $0.count <= limit }, "A line is longer than the limit.")
    for line in whole {
        if let answer = PluginAnswer(line: line[...]) { _ = try? MergeResult(answer.outcome, from: "p/h") }
        _ = try? MergeResult(printed: line, by: "p/h")
    }
    return 0
}

private func lines(in bytes: [UInt8], piece: Int, limit: Int) -> [[UInt8]] {
    var splitter = LineSplitter(limit: limit)
    var lines: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
        var chunk = rest.prefix(piece)
        while let (line, _) = splitter.next(&chunk) { lines.append(Array(line)) }
        rest = rest.dropFirst(piece)
    }
    if let (line, _) = splitter.last() { lines.append(Array(line)) }
    return lines
}
