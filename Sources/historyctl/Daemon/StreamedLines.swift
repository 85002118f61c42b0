import HistoryControl
import PersistentHistory

extension ControlClient {
    /// Prints an answer that is a stream of lines, piece by piece as it arrives.
    ///
    /// - Parameters:
    ///   - command: The request.
    ///   - write: Writes a line; by default unchanged.
    ///   - printed: Called with the last line of each piece.
    /// - Throws: The `ControlError` with which the stream breaks off.
    func printLines(
        of command: ControlCommand,
        write: (ArraySlice<UInt8>, inout StandardOutput) throws -> Void = { line, output in
            try output.write(line)
            try output.write(CollectionOfOne(UInt8(ascii: "\n")))
        },
        printed: (ArraySlice<UInt8>) async throws -> Void = { _ in }
    ) async throws {
        var splitter = LineSplitter()
        try await send(command) { bytes in
            var bytes = bytes
            var output = StandardOutput()
            var last: ArraySlice<UInt8>?
            var failure: ControlError?
            while let (line, _) = splitter.next(&bytes) {
                if line.isEmpty { continue }
                // An error can only be the last line.
                failure = try ControlFailure.error(in: line)
                if failure != nil { break }
                try write(line, &output)
                last = line
            }
            try output.flush()
            if let last { try await printed(last) }
            if let failure { throw failure }
        }
    }
}
