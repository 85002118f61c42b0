/// Suggests the name that a misspelled one was meant to be.
package enum NearestName {
    /// The known name with the fewest mistakes (a letter missing, added, wrong, or two exchanged; case is
    /// ignored), unless more than a third of it would be wrong.
    package static func of(_ name: String, in known: some Sequence<String>) -> String? {
        let letters = Array(name.lowercased().unicodeScalars)
        // Long text is not a misspelled name, and the work grows with the square of its length.
        guard letters.count <= 64 else { return nil }
        var nearest: (name: String, slips: Int)?
        for candidate in known {
            let other = Array(candidate.lowercased().unicodeScalars)
            let allowed = max(1, max(letters.count, other.count) / 3)
            guard abs(letters.count - other.count) <= allowed, other.count <= 64 else { continue }
            let slips = slips(from: letters, to: other)
            guard slips < max(letters.count, other.count) else { continue }
            if slips <= allowed, slips < nearest?.slips ?? .max { nearest = (candidate, slips) }
        }
        return nearest?.name
    }

    /// The edit distance with transpositions of neighbours (optimal string alignment).
    private static func slips(from a: [Unicode.Scalar], to b: [Unicode.Scalar]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...b.count)
        for i in a.indices {
            var row = [i + 1]
            for j in b.indices {
                var slips = min(last[j + 1] + 1, row[j] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] {
                    slips = min(slips, beforeLast[j - 1] + 1)
                }
                row.append(slips)
            }
            beforeLast = last
            last = row
        }
        return last[b.count]
    }
}
