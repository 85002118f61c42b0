import Glibc
import PersistentHistory

/// The real daemon with a configuration of its own, and one coprocess plugin.
final class DaemonProcess {
    let stamps: StampReader
    let started: Int64
    let child: Child
    private let workplace: Workplace
    private let folder: String

    /// Starts it, and waits until it says that it is ready.
    ///
    /// - Parameter stores: Paths.
    init(_ workplace: Workplace, stores: [String]) throws {
        self.workplace = workplace
        folder = try workplace.makeFolder("daemon")
        stamps = try StampReader(named: "\(folder)/stamps")
        try Self.save(Self.manifest(workplace.bench, stamps: "\(folder)/stamps"), to: "\(folder)/plugins.json")
        try Self.save(
            Self.configuration(stores, plugins: "\(folder)/plugins.json"), to: "\(folder)/historyd.json")
        let log = open("\(folder)/log", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard log >= 0 else { throw BenchError.system("open the daemon's log") }
        defer { close(log) }
        let readiness = try ReadinessSocket("\(folder)/notify")
        started = Clock.now
        child = try Child(
            [workplace.historyd, "--config", "\(folder)/historyd.json"],
            environment: [
                "STATE_DIRECTORY=\(folder)/state", "RUNTIME_DIRECTORY=\(folder)",
                "NOTIFY_SOCKET=\(folder)/notify",
            ],
            errors: log)
        guard readiness.wait() else {
            child.end()
            throw BenchError("The daemon does not become ready:\n\(FileBytes.text(of: "\(folder)/log"))")
        }
    }

    /// Ends it, and forgets what it knew.
    func stop() throws {
        child.end()
        try workplace.remove(folder)
    }

    private static func save(_ json: JSONBytes, to path: String) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw BenchError.system("write the daemon's configuration") }
        defer { close(file) }
        try FileBytes.write(json.bytes, to: file)
    }

    private static func configuration(_ stores: [String], plugins: String) -> JSONBytes {
        var json = JSONBytes()
        json.object { json in
            json.name("version")
            json.integer(1)
            json.name("stores")
            json.array { json in
                for (place, path) in stores.enumerated() {
                    json.object { json in
                        json.name("name")
                        json.string("store\(place)")
                        json.name("path")
                        json.string(path)
                        json.name("authors")
                        json.raw(
                            #"[{"name":"\#(BenchStore.reader)"},{"name":"\#(BenchStore.writer)","batch":true}]"#
                                .utf8)
                    }
                }
            }
            json.name("plugins")
            json.array { $0.string(plugins) }
        }
        return json
    }

    private static func manifest(_ bench: String, stamps: String) -> JSONBytes {
        var json = JSONBytes()
        json.object { json in
            json.name("version")
            json.integer(1)
            json.name("plugins")
            json.array { json in
                json.object { json in
                    json.name("name")
                    json.string("bench")
                    json.name("command")
                    json.array { json in
                        for argument in [bench, "plugin", stamps] { json.string(argument) }
                    }
                    json.name("mode")
                    json.string("coprocess")
                    json.name("timeout")
                    json.string("60s")
                    json.name("hooks")
                    json.raw(#"[{"name":"items","kind":"observer","entity":"item"}]"#.utf8)
                }
            }
        }
        return json
    }
}
