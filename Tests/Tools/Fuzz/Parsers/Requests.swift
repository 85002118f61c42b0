/// The first line of a request: what is understood means the same when it is written again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let text = String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    let words = text.split(separator: " ", maxSplits: 1)
    guard words.count == 2,
        let command = try? ControlCommand(method: String(words[0]), target: String(words[1]))
    else { return 0 }
    let again = try? ControlCommand(method: command.method.rawValue, target: command.target)
    precondition(
        again == command, "\(command) is written as \(command.target), which is \(String(describing: again)).")
    return 0
}
