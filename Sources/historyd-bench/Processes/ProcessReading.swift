import Glibc

/// What /proc says of a process (proc(5)).
struct ProcessReading {
    /// Resident memory, and the process's share of it where it is shared, in KiB.
    let resident: Double
    let proportional: Double
    let peak: Double
    let threads: Double
    /// Times that one of its threads gave up the processor to wait for something.
    let waits: Double
    /// Time on a processor, in clock ticks.
    let ticks: Double

    init(of processID: pid_t) throws {
        let status = Fields("/proc/\(processID)/status")
        resident = try status.number("VmRSS")
        peak = try status.number("VmHWM")
        threads = try status.number("Threads")
        proportional = try Fields("/proc/\(processID)/smaps_rollup").number("Pss")
        waits = try Self.tasks(of: processID).reduce(0) { sum, task in
            try sum + Fields("/proc/\(processID)/task/\(task)/status").number("voluntary_ctxt_switches")
        }
        // The name, which may hold anything, is in parentheses; utime and stime are the 14th and 15th field.
        let stat = FileBytes.text(of: "/proc/\(processID)/stat")
        let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else {
            throw BenchError("/proc does not tell the processor time of process \(processID).")
        }
        ticks = user + system
    }

    private static func tasks(of processID: pid_t) throws -> [String] {
        guard let folder = opendir("/proc/\(processID)/task") else { throw BenchError.system("list a process's threads") }
        defer { closedir(folder) }
        var tasks: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
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
            let value = line?.dropFirst(name.count + 1).split { $0 == " " || $0 == "\t" }.first.flatMap { Double($0) }
            guard let value else { throw BenchError("\(path) does not tell \(name).") }
            return value
        }
    }
}
