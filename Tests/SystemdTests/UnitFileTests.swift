import FoundationEssentials
import Testing

/// What is shipped for systemd is what systemd understands; needs neither root nor a booted systemd.
@Suite struct UnitFileTests {
    /// Installs everything but the programs, which are empty files, with nothing to strip.
    private func withInstallation<R>(prefix: String = "/usr", _ body: (URL) async throws -> R) async throws -> R
    {
        try await withTemporaryFolder { folder in
            let programs = folder.appending(path: "programs").path
            try FileManager.default.createDirectory(atPath: programs, withIntermediateDirectories: false)
            for name in ["historyd", "historyctl", "historyd-nats", "libhistory.so"] {
                try await succeed("install", "-m", "755", "/dev/null", "\(programs)/\(name)")
            }
            for file in [
                "man/historyd.8", "man/historyctl.1", "man/historyd-nats.8", "completions/historyd.bash",
                "completions/historyctl.zsh", "completions/historyd-nats.fish",
            ] {
                try await succeed("install", "-D", "-m", "644", "/dev/null", "\(programs)/\(file)")
            }
            let root = folder.appending(path: "root")
            try await succeed(
                "make", "-C", Package.root, "install", "DESTDIR=\(root.path)", "PREFIX=\(prefix)",
                "BINDIR=\(programs)", "STRIP=true")
            return try await body(root)
        }
    }

    @Test(.enabled(if: Package.isInstalled("systemd-analyze"), "systemd-analyze is not installed"))
    func theUnitAndItsDropInsAreUnderstood() async throws {
        try await withInstallation { root in
            // The drop-ins as an operator would put them.
            for file in try FileManager.default.contentsOfDirectory(atPath: "\(Package.root)/systemd/examples")
            {
                try await succeed(
                    "install", "-D", "-m", "644", "-t", "\(root.path)/etc/systemd/system/historyd.service.d",
                    "\(Package.root)/systemd/examples/\(file)")
            }
            // The units that every unit depends on.
            for folder in ["/usr/lib/systemd/system", "/lib/systemd/system"]
            where FileManager.default.fileExists(atPath: folder) {
                try await succeed("cp", "-rnT", folder, "\(root.path)/usr/lib/systemd/system")
                break
            }
            let outcome = try await run(
                "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "--root=\(root.path)",
                "historyd.service", "historyd-nats.service")
            let complaints = outcome.output.split(separator: "\n").filter { $0.contains("historyd") }
            #expect(complaints.isEmpty)
            #expect(outcome.status == 0)
        }
    }

    /// What a socket serves is scraped: alerts on what is not cannot fire.
    @Test func everyMetricsSocketIsScraped() throws {
        let folder = "\(Package.root)/systemd"
        let scraped = try String(
            contentsOfFile: "\(Package.root)/config/monitoring/prometheus.yml", encoding: .utf8)
        let sockets = try FileManager.default.contentsOfDirectory(atPath: folder).filter {
            $0.hasSuffix("-metrics.socket")
        }
        #expect(sockets.count == 2)
        for socket in sockets {
            let unit = try String(contentsOfFile: "\(folder)/\(socket)", encoding: .utf8)
            let address = try #require(unit.firstMatch(of: /ListenStream=(.*)/)?.1)
            #expect(scraped.contains("\"\(address)\""), "\(socket)")
        }
    }

    /// The threshold is in tenths.
    @Test(.enabled(if: Package.isInstalled("systemd-analyze"), "systemd-analyze is not installed"))
    func theSandboxIsTight() async throws {
        try await withInstallation { root in
            let outcome = try await run(
                "systemd-analyze", "security", "--offline=yes", "--threshold=10", "--no-pager",
                "\(root.path)/usr/lib/systemd/system/historyd.service")
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }

    /// A client of a network can be no tighter than this.
    @Test(.enabled(if: Package.isInstalled("systemd-analyze"), "systemd-analyze is not installed"))
    func theSandboxOfAClientIsTight() async throws {
        try await withInstallation { root in
            let outcome = try await run(
                "systemd-analyze", "security", "--offline=yes", "--threshold=25", "--no-pager",
                "\(root.path)/usr/lib/systemd/system/historyd-nats.service")
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }

    @Test(.enabled(if: Package.isInstalled("journalctl"), "journalctl is not installed"))
    func theCatalogCompiles() async throws {
        try await withInstallation { root in
            try await succeed("install", "-d", "\(root.path)/var/lib/systemd/catalog")
            let compiled = try await succeed("journalctl", "--root=\(root.path)", "--update-catalog")
            #expect(compiled == "")
            let source = try String(contentsOfFile: "\(Package.root)/systemd/historyd.catalog", encoding: .utf8)
            let subjects = source.split(separator: "\n").filter { $0.hasPrefix("Subject: ") }
            let listed = try await succeed(
                "journalctl", "--root=\(root.path)", "--list-catalog", "--no-pager"
            ).split(separator: "\n")
            #expect(listed.count == subjects.count)
            #expect(listed.count > 20)
        }
    }

    @Test func whatIsInstalledIsUninstalled() async throws {
        try await withInstallation { root in
            try await succeed("make", "-C", Package.root, "uninstall", "DESTDIR=\(root.path)", "PREFIX=/usr")
            let left = try await succeed("find", root.path, "-type", "f", "-printf", "%P\n")
            #expect(left.contains("etc/historyd/historyd.json\n"))
            #expect(left.split(separator: "\n").allSatisfy { $0.hasPrefix("etc/historyd/") })
        }
    }

    /// Whatever names a place names that of this installation.
    @Test func anotherPrefixIsUsedThroughout() async throws {
        try await withInstallation(prefix: "/opt/historyd") { root in
            let files = try await succeed(
                "find", root.path, "-type", "f", "-name", "historyd*", "-printf", "%P\n")
            #expect(files.contains("opt/historyd/bin/historyd\n"))
            #expect(!files.contains("usr/"))
            let unit = try String(
                contentsOfFile: "\(root.path)/opt/historyd/lib/systemd/system/historyd.service", encoding: .utf8
            )
            #expect(unit.contains("ExecStart=/opt/historyd/bin/historyd "))
            let old = try await run("grep", "-r", "-e", "/usr/lib/", "-e", "/usr/share/", "\(root.path)/etc")
            #expect(old.status == 1, "\(old.output)")
        }
    }

    /// An administrator's configuration outlives an upgrade.
    @Test func anInstalledConfigurationIsKept() async throws {
        try await withInstallation { root in
            let file = "\(root.path)/etc/historyd/historyd.json"
            try Data("mine".utf8).write(to: URL(filePath: file))
            try await succeed(
                "make", "-C", Package.root, "install", "DESTDIR=\(root.path)", "PREFIX=/usr",
                "BINDIR=\(root.path)/../programs", "STRIP=true")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == "mine")
        }
    }
}
