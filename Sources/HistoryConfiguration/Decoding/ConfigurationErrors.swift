package import HistoryBase

/// A problem of a configuration or a manifest, with its position.
package struct ConfigurationProblem: Sendable, Hashable, CustomStringConvertible {
    package let file: String
    /// Nil if the file could not be read at all.
    package let position: SourcePosition?
    /// `stores[0].authors[1].batch`; empty for the document as a whole.
    package var keyPath = ""
    /// What is wrong, and what is allowed.
    package let message: String

    /// `file:line:column: key path: message`, always on one line.
    package var description: String {
        let location = position.map { "\(file.printable):\($0)" } ?? file.printable
        return keyPath.isEmpty ? "\(location): \(message)" : "\(location): \(keyPath): \(message)"
    }
}

/// All problems, sorted by file and by position.
package struct ConfigurationErrors: Error, Sendable, Hashable, CustomStringConvertible {
    /// Never empty.
    package let problems: [ConfigurationProblem]

    /// A line for each problem.
    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}

/// Collects the problems of several files while they are read.
///
/// A class, because every part of a document reports to the same list.
final class ProblemList {
    private var problems: [(fileOrder: Int, problem: ConfigurationProblem)] = []
    private var fileOrder: [String: Int] = [:]

    func report(_ problem: ConfigurationProblem) {
        begin(problem.file)
        problems.append((fileOrder[problem.file, default: 0], problem))
    }

    /// Registers a file: its problems come after those of earlier files.
    func begin(_ file: String) {
        if fileOrder[file] == nil { fileOrder[file] = fileOrder.count }
    }

    /// Nil if there are no problems.
    var errors: ConfigurationErrors? {
        guard !problems.isEmpty else { return nil }
        let start = SourcePosition(line: 0, column: 0)
        let sorted = problems.enumerated().sorted { a, b in
            let (x, y) = (a.element, b.element)
            if x.fileOrder != y.fileOrder { return x.fileOrder < y.fileOrder }
            let (p, q) = (x.problem.position ?? start, y.problem.position ?? start)
            return p == q ? a.offset < b.offset : p < q
        }
        return ConfigurationErrors(problems: sorted.map(\.element.problem))
    }
}
