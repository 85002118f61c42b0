/// Counts the instructions of a program, by valgrind.
struct InstructionCounter {
    static let group = "instructions (callgrind; the daemon's process, not the plugin's)"

    /// The daemon without what a debugger reads, which this valgrind cannot.
    let historyd: String
    private let valgrind: String
    private let log: String

    init(_ workplace: Workplace, in folder: String) throws {
        valgrind = try Tool.find("valgrind", package: "valgrind")
        log = "\(folder)/count"
        historyd = "\(folder)/historyd"
        try Child.run([
            Tool.find("strip", package: "binutils"), "-g", "-o", historyd, workplace.historyd,
        ])
    }

    /// Runs a program whose instructions are counted.
    var command: [String] {
        [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-file=\(log)"]
    }

    /// valgrind does not know pidfd_open.
    var environment: [String] { ["LD_PRELOAD=\(Workplace.program("bench-pidfd.so"))"] }

    /// - Parameter run: Runs a program by the command that it is given, until its end.
    func count(_ run: ([String]) throws -> Void) throws -> Double {
        try run(command)
        // "==1== Collected : 46116479"
        let line = FileBytes.text(of: log).split(separator: "\n").first { $0.contains("Collected") }
        guard let count = line?.split(separator: " ").last.flatMap({ Double($0) }) else {
            throw BenchError("valgrind counts nothing:\n\(FileBytes.text(of: log))")
        }
        return count
    }
}
