import CSimulation

/// What happened in a run: lines of fields, which processes append to one file.
///
/// It is the same, to the byte, each time that a seed is run.
struct Record: Sendable {
    let descriptor: Int32
    /// What is different in each run, and is left out.
    let folder: String
    let life: Int

    func write(_ kind: String, _ fields: String...) {
        let fields = fields.map { $0.replacing(folder, with: "~").replacing("\n", with: " ") }
        let line = ([String(now), String(life), kind] + fields).joined(separator: "\t") + "\n"
        var bytes = Array(line.utf8)
        _ = csimulation_write_all(descriptor, &bytes, bytes.count)
    }

    var now: Int64 { csimulation_now() }

    /// A line as it is read again.
    struct Line {
        let time: Int64
        let life: Int
        let kind: String
        let fields: [String]

        init?(_ text: Substring) {
            let parts = text.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            guard parts.count >= 3, let time = Int64(parts[0]), let life = Int(parts[1]) else { return nil }
            self.time = time
            self.life = life
            kind = parts[2]
            fields = Array(parts[3...])
        }

        /// Empty where there is none.
        subscript(index: Int) -> String { index < fields.count ? fields[index] : "" }
        func number(_ index: Int) -> Int64 { Int64(self[index]) ?? -1 }
    }
}
