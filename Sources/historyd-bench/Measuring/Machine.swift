import FoundationEssentials
import GRDBSQLite
import Glibc

/// The machine that the figures were measured on.
struct Machine {
    let kernel: String
    let processor: String
    let memory: String
    let sqlite: String
    let build: String
    /// The load average of the last minute.
    let load: String
    let time: String

    init() {
        time = Date().formatted(.iso8601)
        var name = utsname()
        uname(&name)
        kernel = "\(Self.text(&name.sysname)) \(Self.text(&name.release)) \(Self.text(&name.machine))"
        let model = FileBytes.text(of: "/proc/cpuinfo").split(separator: "\n").first {
            $0.hasPrefix("model name")
        }
        let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
        let title = model?.split(separator: ":").last.map { String($0.drop { $0 == " " }) } ?? "unknown"
        processor = "\(title), \(processors) processors"
        let pages = Double(sysconf(Int32(_SC_PHYS_PAGES))) * Double(sysconf(Int32(_SC_PAGESIZE)))
        memory = "\(NumberText.text(pages / Double(1 << 30), decimals: 0)) GiB"
        sqlite = String(cString: sqlite3_libversion())
        #if DEBUG
            build = "debug (the figures mean little)"
        #else
            build = "release"
        #endif
        load = FileBytes.text(of: "/proc/loadavg").split(separator: " ").first.map(String.init) ?? "unknown"
    }

    /// A C array of characters, which Swift sees as a tuple.
    private static func text<T>(_ characters: inout T) -> String {
        withUnsafeBytes(of: &characters) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    private static var compiler: String {
        #if swift(>=6.4)
            "6.4 or later"
        #elseif swift(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }

    /// The versions of the programs that are compared, if they are installed.
    private func versions() throws -> [RunRecord.Fact] {
        let programs = try [
            ("commit", Tool.answer("git", "log", "-1", "--format=%h %cI")),
            ("C", Tool.answer("cc", "--version")),
            ("shell", Tool.answer("bash", "--version")), ("valgrind", Tool.answer("valgrind", "--version")),
        ]
        return programs.compactMap { name, answer in answer.map { .init(name: name, value: $0) } }
    }

    func facts() throws -> [RunRecord.Fact] {
        [
            .init(name: "time", value: time), .init(name: "kernel", value: kernel),
            .init(name: "processor", value: processor), .init(name: "memory", value: memory),
            .init(name: "SQLite", value: sqlite), .init(name: "Swift", value: "\(Self.compiler), \(build)"),
            .init(name: "load", value: load),
        ] + (try versions())
    }
}
