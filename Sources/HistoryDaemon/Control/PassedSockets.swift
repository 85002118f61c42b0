import Glibc

/// Listening sockets that the service manager passes.
///
/// Source: sd_listen_fds(3), sd_listen_fds_with_names(3).
package struct PassedSockets: Sendable, Equatable {
    /// The name of the metrics' socket: `FileDescriptorName=` of its unit.
    static let metricsName = "metrics"
    /// The first descriptor after the standard ones.
    private static let first: Int32 = 3

    /// The control socket; nil where none was passed.
    package let control: Int32?
    /// TCP sockets where metrics are scraped.
    package let metrics: [Int32]

    /// - Parameter processID: The id of this process: the variables may be another process's, inherited from
    ///   it.
    package init(environment: [String: String], processID: Int32 = getpid()) {
        guard environment["LISTEN_PID"] == String(processID),
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), (1...64).contains(count)
        else {
            (control, metrics) = (nil, [])
            return
        }
        let names = (environment["LISTEN_FDNAMES"] ?? "").split(
            separator: ":", omittingEmptySubsequences: false)
        let sockets = (0..<count).map { index in
            (descriptor: Self.first + index, name: names.indices.contains(Int(index)) ? names[Int(index)] : "")
        }
        control = sockets.first { $0.name != Self.metricsName }?.descriptor
        metrics = sockets.filter { $0.name == Self.metricsName }.map(\.descriptor)
    }

    /// Keeps plugins from inheriting the sockets.
    package func closeOnExec() {
        for descriptor in metrics + [control].compactMap(\.self) { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    }
}
