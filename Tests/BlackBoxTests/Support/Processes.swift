import Foundation
import Testing

/// What /proc tells of processes (proc(5)).
enum Processes {
    /// All with a text in their arguments.
    static func naming(_ text: String) -> [pid_t] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return names.compactMap { name in
            guard let process = pid_t(name), process != getpid(), !isZombie(process) else { return nil }
            return file(process, "cmdline").contains(text) ? process : nil
        }
    }

    static func isAlive(_ process: pid_t) -> Bool { kill(process, 0) == 0 && !isZombie(process) }

    private static func isZombie(_ process: pid_t) -> Bool { statFields(process).first == "Z" }

    /// The processor time that a process has used.
    static func processorTime(_ process: pid_t) -> Duration {
        // Fields 14 and 15, utime and stime, counted from the state, which is the third.
        let fields = statFields(process)
        guard fields.count > 12, let user = Int(fields[11]), let system = Int(fields[12]) else { return .zero }
        return .milliseconds((user + system) * 1000 / sysconf(Int32(_SC_CLK_TCK)))
    }

    /// How often the process's threads were put to sleep by what they waited for.
    static func switches(_ process: pid_t) -> Int {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
        return threads.reduce(0) { sum, thread in
            let line = file(process, "task/\(thread)/status").split(separator: "\n").first {
                $0.hasPrefix("voluntary_ctxt_switches:")
            }
            return sum + (line?.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) } ?? 0)
        }
    }

    /// The bytes of memory that a process has of its own.
    static func memory(_ process: pid_t) -> Int { bytes(process, "RssAnon:") }

    /// The most memory that a process ever had, in bytes.
    static func mostMemory(_ process: pid_t) -> Int { bytes(process, "VmHWM:") }

    private static func bytes(_ process: pid_t, _ name: String) -> Int {
        let line = file(process, "status").split(separator: "\n").first { $0.hasPrefix(name) }
        return (line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) } ?? 0) << 10
    }

    /// How many connections there are to a socket of a process, seen from its side (proc_net(5)).
    static func sockets(_ process: pid_t, _ path: String) -> Int {
        // The state, third from the end, is 3 for what is connected.
        file(process, "net/unix").split(separator: "\n").filter { line in
            let fields = line.split(separator: " ")
            return fields.last.map(String.init) == path && fields.count > 6 && fields[5] == "03"
        }.count
    }

    /// The mapped files whose names end so, with how many KiB of each are in a process's memory (proc_pid_smaps(5)).
    static func mapped(_ process: pid_t, suffix: String) -> [String: Int] {
        var sizes: [String: Int] = [:]
        var name: String?
        for line in file(process, "smaps").split(separator: "\n") {
            let fields = line.split(separator: " ", omittingEmptySubsequences: true)
            if fields.count >= 5, fields[0].contains("-") {
                name = fields.count > 5 ? String(fields[5]) : nil
            } else if let name, name.hasSuffix(suffix), fields.first == "Rss:" {
                sizes[name, default: 0] += Int(fields[1]) ?? 0
            }
        }
        return sizes
    }

    static func descriptors(_ process: pid_t) -> Int { openFiles(process).count }

    /// What its descriptors lead to, in order.
    static func openFiles(_ process: pid_t) -> [String] {
        let folder = "/proc/\(process)/fd"
        return ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
        }.sorted()
    }

    /// From the state on; the name before it may hold anything.
    private static func statFields(_ process: pid_t) -> [Substring] {
        let text = file(process, "stat")
        guard let end = text.lastIndex(of: ")") else { return [] }
        return text[text.index(after: end)...].split(separator: " ")
    }

    private static func file(_ process: pid_t, _ name: String) -> String {
        // `FileManager` reads 4 KiB of a file without a size. The process may end meanwhile.
        let bytes = try? FileHandle(forReadingAtPath: "/proc/\(process)/\(name)")?.readToEnd()
        return String(decoding: bytes ?? Data(), as: UTF8.self)
    }
}

/// What the tests were built with.
enum Sanitizers {
    static let options = ProcessInfo.processInfo.environment.filter {
        $0.key == "TSAN_OPTIONS" || $0.key == "ASAN_OPTIONS"
    }
    /// The thread sanitizer has a thread of its own, which wakes ten times a second.
    static let watchThreads = options["TSAN_OPTIONS"] != nil
    /// The address sanitizer keeps what was freed for a while.
    static let watchMemory = options["ASAN_OPTIONS"] != nil
}

extension Trait where Self == ConditionTrait {
    /// Skips a test where a sanitizer would be measured with it.
    static var measuresMemory: Self {
        .disabled(
            if: Sanitizers.watchMemory || Sanitizers.watchThreads, "sanitizers take memory of their own")
    }
}
