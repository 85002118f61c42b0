import Glibc
import PersistentHistory

/// The results for programs: to be kept, and compared with another run's.
enum FigureJSON {
    static func write(_ figures: [Figure], _ machine: Machine, to path: String) throws {
        var json = JSONBytes()
        json.object { json in
            json.name("machine")
            json.object { json in
                for (name, value) in machine.facts {
                    json.name(name)
                    json.string(value)
                }
            }
            json.name("figures")
            json.array { json in
                for figure in figures { write(figure, to: &json) }
            }
        }
        json.endLine()
        try save(json.bytes, to: path)
    }

    private static func write(_ figure: Figure, to json: inout JSONBytes) {
        json.object { json in
            json.name("group")
            json.string(figure.group)
            json.name("name")
            json.string(figure.name)
            json.name("value")
            json.real(figure.value)
            json.name("unit")
            json.string(figure.unit.rawValue)
            guard let baseline = figure.baseline else { return }
            json.name("baseline")
            json.string(baseline.name)
            json.name("baselineValue")
            json.real(baseline.value)
        }
    }

    private static func save(_ bytes: [UInt8], to path: String) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard file >= 0 else { throw BenchError.system("open '\(path)'") }
        defer { close(file) }
        try FileBytes.write(bytes, to: file)
    }
}
