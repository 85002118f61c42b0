import PersistentHistory
import Logging

/// Passes on to the log what a plugin writes to standard error.
struct ErrorLog: Sendable {
    private let logger: Logger
    private let level: Logger.Level
    private let tail: ErrorTail

    /// - Parameter tail: Keeps the last lines.
    init(_ logger: Logger, level: Logger.Level = .info, tail: ErrorTail = ErrorTail()) {
        self.logger = logger
        self.level = level
        self.tail = tail
    }

    /// Reads to the end.
    ///
    /// - Returns: the last lines.
    @discardableResult
    func follow(_ errors: Descriptor) async -> String? {
        var lines = ErrorLines()
        var brake = FloodBrake(bytes: 1 << 16)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        do throws(SystemError) {
            while true {
                let count = try await errors.read(into: &buffer)
                guard count > 0 else { break }
                log(lines.split(buffer[..<count], at: .now))
                if lines.dropped > 0 { await brake.brake(after: count) }
            }
        } catch {
            logger.warning("The plugin's standard error could not be read.", metadata: ["error": "\(error)"])
        }
        log(lines.finish(at: .now))
        if lines.dropped > 0 { warn(ofDropped: lines.dropped) }
        return tail.text
    }

    private func log(_ lines: [ErrorLines.Line]) {
        for line in lines {
            if line.droppedBefore > 0 { warn(ofDropped: line.droppedBefore) }
            logger.log(level: level, "\(line.text)")
            tail.add(line.text)
        }
    }

    private func warn(ofDropped count: Int) {
        logger.warning(
            "The plugin writes too much to standard error; lines were dropped.", metadata: ["count": "\(count)"]
        )
    }
}
