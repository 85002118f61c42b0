import Glibc

/// A bare loop as a process of its own, that tells of what it finds itself or through a plugin.
final class BareProcess {
    let stamps: StampReader
    /// The loop, and the plugin if there is one.
    let children: [Child]

    /// Starts a loop, and waits until it listens.
    static func watching(_ store: String, _ workplace: Workplace, plugin: Bool) throws -> BareProcess {
        let process = try BareProcess(store, workplace, plugin: plugin, all: false)
        _ = try process.stamps.next()
        return process
    }

    /// Starts one that reads the whole history, and ends.
    static func reading(_ store: String, _ workplace: Workplace, plugin: Bool) throws -> BareProcess {
        try BareProcess(store, workplace, plugin: plugin, all: true)
    }

    private init(_ store: String, _ workplace: Workplace, plugin: Bool, all: Bool) throws {
        let command =
            [workplace.bench, "watch", store] + (plugin ? ["--requests"] : []) + (all ? ["--all"] : [])
        let ends = try Child.pipe()
        defer { close(ends.writing) }
        guard plugin else {
            stamps = StampReader(ends.reading)
            children = [try Child(command, output: ends.writing)]
            return
        }
        defer { close(ends.reading) }
        let pipe = "\(try workplace.makeFolder("bare"))/\(ends.reading).\(Clock.now)"
        stamps = try StampReader(named: pipe)
        let reader = try Child([workplace.bench, "plugin", pipe], input: ends.reading)
        children = [try Child(command, output: ends.writing), reader]
    }

    func end() {
        for child in children { child.end() }
    }
}
