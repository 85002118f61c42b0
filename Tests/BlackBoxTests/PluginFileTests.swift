import Foundation
import TestSupport
import Testing

/// A reload starts a plugin again whose program has changed, and no other.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct PluginFileTests {
    @Test("A file among the arguments that the plugin writes itself is no part of its program")
    func ownLog() async throws {
        try await withWorkbench { bench in
            let recorder = try String(contentsOfFile: bench.path("record.py"), encoding: .utf8)
            try bench.folder.write("logging.py", "import sys\nlog = open(sys.argv[2], 'a')\n" + recorder)
            try bench.folder.write("plugin.log", "")
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        command: [
                            Products.python, bench.path("logging.py"), "coprocess", bench.path("plugin.log"),
                        ])
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            let log = try #require(FileHandle(forWritingAtPath: bench.path("plugin.log")))
            try log.write(contentsOf: Data("It has written something.\n".utf8))
            try log.close()
            var plugins = try await bench.report("reload")["plugins"]
            #expect(plugins["unchanged"].texts == ["audit"] && plugins["changed"].texts == [], "\(plugins)")
            // The script is.
            try bench.folder.write("logging.py", "import sys\nlog = open(sys.argv[2], 'a') # new\n" + recorder)
            plugins = try await bench.report("reload")["plugins"]
            #expect(plugins["changed"].texts == ["audit"], "\(plugins)")
            try await daemon.stop()
        }
    }
}
