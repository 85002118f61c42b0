/// A place in a text file, counted as editors and compilers count it.
public struct SourcePosition: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// From 1.
    public let line: Int
    /// From 1, in Unicode scalars.
    public let column: Int

    public init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    public var description: String { "\(line):\(column)" }

    public static func < (a: Self, b: Self) -> Bool {
        (a.line, a.column) < (b.line, b.column)
    }
}
