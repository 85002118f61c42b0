/// A position in a text file, counted as editors and compilers count it.
package struct SourcePosition: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// From 1.
    package let line: Int
    /// From 1, in Unicode scalars.
    package let column: Int

    package var description: String { "\(line):\(column)" }

    package static func < (a: Self, b: Self) -> Bool {
        (a.line, a.column) < (b.line, b.column)
    }
}
