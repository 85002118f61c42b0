import FoundationEssentials
import GRDBSQLite
import Glibc

/// The machine that the figures were measured on.
struct Machine {
    let time = Date().formatted(.iso8601)
    /// The load average of the last minute.
    let load =
        FileBytes.text(of: "/proc/loadavg").split(separator: " ").first.map(String.init) ?? "unknown"

    private static var kernel: String {
        var name = utsname()
        uname(&name)
        return "\(text(&name.sysname)) \(text(&name.release)) \(text(&name.machine))"
    }

    private static var processor: String {
        let model = FileBytes.text(of: "/proc/cpuinfo").split(separator: "\n").first {
            $0.hasPrefix("model name")
        }
        let title = model?.split(separator: ":").last.map { String($0.drop { $0 == " " }) } ?? "unknown"
        return "\(title), \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) processors"
    }

    private static var memory: String {
        let pages = Double(sysconf(Int32(_SC_PHYS_PAGES))) * Double(sysconf(Int32(_SC_PAGESIZE)))
        return "\(NumberText.text(pages / Double(1 << 30), decimals: 0)) GiB"
    }

    private static var build: String {
        #if DEBUG
            "debug (the figures mean little)"
        #else
            "release"
        #endif
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
        let known = [
            ("time", time), ("kernel", Self.kernel), ("processor", Self.processor), ("memory", Self.memory),
            ("SQLite", String(cString: sqlite3_libversion())), ("Swift", "\(Self.compiler), \(Self.build)"),
            ("load", load),
        ]
        return known.map { .init(name: $0, value: $1) } + (try versions())
    }
}
