import Glibc

/// What /proc shows of a process (proc(5)).
struct ProcessReading {
    /// Resident memory, and the process's share of it where it is shared, in KiB.
    let resident: Double
    let proportional: Double
    let peak: Double
    let threads: Double
    /// Times that each of its threads gave up the processor to wait for something.
    private let waits: [String: Double]
    /// Time on a processor.
    let seconds: Double

    init(of processID: pid_t) throws {
        let status = Fields("/proc/\(processID)/status")
        resident = try status.number("VmRSS")
        peak = try status.number("VmHWM")
        threads = try status.number("Threads")
        proportional = try Fields("/proc/\(processID)/smaps_rollup").number("Pss")
        waits = try Self.waits(of: processID)
        seconds = try Self.processorTime(of: processID)
    }

    /// To the nanosecond; /proc only shows hundredths of a second.
    static func processorTime(of processID: pid_t) throws -> Double {
        var clock = clockid_t()
        var time = timespec()
        let result = clock_getcpuclockid(processID, &clock)
        guard result == 0 else { throw BenchError.system("find the clock of process \(processID)", result) }
        guard clock_gettime(clock, &time) == 0 else {
            throw BenchError.system("read the clock of process \(processID)")
        }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// Waits since an earlier reading, without those of threads that have ended since.
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
        try numbers(in: "/proc/\(processID)/task")
    }

    /// Its child processes that have not ended.
    static func children(of processID: pid_t) throws -> [pid_t] {
        try numbers(in: "/proc").filter { process in
            // One may have ended since it was listed.
            Fields("/proc/\(process)/status").word("PPid") == String(processID)
        }.compactMap { pid_t($0) }
    }

    /// The names in a folder that are numbers.
    private static func numbers(in path: String) throws -> [String] {
        guard let folder = opendir(path) else { throw BenchError.system("list '\(path)'") }
        defer { closedir(folder) }
        var numbers: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if Int(name) != nil { numbers.append(name) }
        }
        return numbers
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
            guard let word = word(name), let value = Double(word) else {
                throw BenchError("\(path) does not tell \(name).")
            }
            return value
        }

        func word(_ name: String) -> String? {
            let line = lines.first { $0.hasPrefix("\(name):") }
            return line?.dropFirst(name.count + 1).split { $0 == " " || $0 == "\t" }.first.map(String.init)
        }
    }
}
