import Glibc

/// How a process ended.
enum ProcessEnd: Sendable, Hashable, CustomStringConvertible {
    case exited(Int32)
    case signaled(Int32)

    /// Follows "it" or a name.
    var description: String {
        switch self {
        case .exited(let status): "ended with status \(status)"
        case .signaled(let signal): "was killed by signal \(signal) (\(Self.name(of: signal)))"
        }
    }
}

extension ProcessEnd {
    private static func name(of signal: Int32) -> String {
        strsignal(signal).map { String(cString: $0) } ?? "unknown"
    }
}
