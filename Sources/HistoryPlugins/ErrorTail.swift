import PersistentHistory

/// The last lines that a process wrote to standard error: mostly they say why it failed.
final class ErrorTail: Sendable {
    private static let most = 3
    private let lines = Locked<[String]>([])

    func add(_ line: String) {
        lines.withLock { lines in
            lines.append(line)
            if lines.count > Self.most { lines.removeFirst() }
        }
    }

    /// On one line; nil where there is none.
    var text: String? {
        let lines = lines.withLock { $0 }
        return lines.isEmpty ? nil : lines.joined(separator: " / ")
    }
}
