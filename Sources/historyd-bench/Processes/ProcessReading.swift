import Glibc

/// What /proc says of a process (proc(5)).
struct ProcessReading {
    /// Resident memory, and the process's share of it where it is shared, in KiB.
    let resident: Double
    let proportional: Double
    let peak: Double
    let threads: Double
    /// Times that each of its threads gave up the processor to wait for something.
    private let waits: [String: Double]
    /// Time on a processor, in clock ticks.
    let ticks: Double

    var seconds: Double { ticks / Double(sysconf(Int32(_SC_CLK_TCK))) }

    init(of processID: pid_t) throws {
        let status = Fields("/proc/\(processID)/status")
        resident = try status.number("VmRSS")
        peak = try status.number("VmHWM")
        threads = try status.number("Threads")
        proportional = try Fields("/proc/\(processID)/smaps_rollup").number("Pss")
        waits = try Self.waits(of: processID)
        // The name, which may hold anything, is in parentheses; utime and stime are the 14th and 15th field.
        let stat = FileBytes.text(of: "/proc/\(processID)/stat")
        let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else {
            throw BenchError("/proc does not tell the processor time of process \(processID).")
        }
        ticks = user + system
    }

    /// Waits since an earlier reading. Those of a thread that has ended meanwhile are not known.
    func waits(since earlier: ProcessReading) -> Double {
        waits.reduce(0) { $0 + $1.value - (earlier.waits[$1.key] ?? 0) }
    }

    private static func waits(of processID: pid_t) throws -> [String: Double] {
        var waits: [String: Double] = [:]
        for task in try tasks(of: processID) {
            let path = "/proc/\(processID)/task/\(task)/status"
            // A thread may have ended since it was listed.
            guard access(path, F_OK) == 0 else { continue }
            waits[task] = try Fields(path).number("voluntary_ctxt_switches")
        }
        return waits
    }

    private static func tasks(of processID: pid_t) throws -> [String] {
        guard let folder = opendir("/proc/\(processID)/task") else {
            throw BenchError.system("list a process's threads")
        }
        defer { closedir(folder) }
        var tasks: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if Int(name) != nil { tasks.append(name) }
        }
        return tasks
    }

    /// Lines of `Name: number unit`.
    private struct Fields {
        let path: String
        let lines: [Substring]

        init(_ path: String) {
            self.path = path
            lines = FileBytes.text(of: path).split(separator: "\n")
        }

        func number(_ name: String) throws -> Double {
            let line = lines.first { $0.hasPrefix("\(name):") }
            let value = line?.dropFirst(name.count + 1).split { $0 == " " || $0 == "\t" }.first.flatMap {
                Double($0)
            }
            guard let value else { throw BenchError("\(path) does not tell \(name).") }
            return value
        }
    }
}
