import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// From what stands in the way to what an operator does: without a file being looked at.
@Suite struct RemedyPlanTests {
    private static let unit = DaemonUnit(name: "historyd@blog.service")

    private func text(
        _ obstacles: AccessObstacle..., user: String = "historyd", unit: DaemonUnit? = Self.unit
    ) -> String {
        RemedyPlan(obstacles, user: user, unit: unit).text
    }

    @Test func everythingIsOneLine() {
        #expect(
            text(
                .folder("/srv/contacts", lacks: "rwx", isOwn: false),
                .newFiles(in: "/srv/contacts", owners: ["app"], closesGroup: true),
                .file("/srv/contacts/c.sqlite", isOwn: false), .readOnlyInSandbox("/srv/contacts"),
                .group("contacts"))
                    == """
                    Usually the unit's sandbox does not allow writes there. As root: setfacl -m u:historyd:rwx /srv/contacts \
                    && setfacl -d -m u:historyd:rw,u:app:rw,g::- /srv/contacts \
                    && setfacl -m u:historyd:rw /srv/contacts/c.sqlite \
                    && mkdir -p /etc/systemd/system/historyd@blog.service.d \
                    && printf '%s\\n' '[Service]' ReadWritePaths=-/srv/contacts > /etc/systemd/system/historyd@blog.service.d/write-srv-contacts.conf \
                    && mkdir -p /etc/systemd/system/historyd@blog.service.d \
                    && printf '%s\\n' '[Service]' SupplementaryGroups=contacts > /etc/systemd/system/historyd@blog.service.d/group-contacts.conf \
                    && systemctl daemon-reload && systemctl restart historyd@blog.service
                    """)
    }

    /// An access control list does not concern the owner: to a user's own file, `setfacl -m u:` lets no user in.
    @Test func anOwnerChangesTheMode() {
        #expect(text(.file("/srv/a/s", isOwn: true), user: "app", unit: nil) == "As app: chmod u+rw /srv/a/s")
        #expect(
            text(.folder("/srv/a", lacks: "rwx", isOwn: true), .file("/srv/a/s", isOwn: false), user: "app")
                == "As root: chmod u+rwx /srv/a && setfacl -m u:app:rw /srv/a/s")
    }

    @Test func rightsOnASharedFolderAreNotAdvised() {
        let text = text(.folder("/home/a", lacks: "x", isOwn: false), .sharedFolder("/home"))
        #expect(!text.contains("setfacl") && !text.contains("As root"), "\(text)")
    }

    /// A user's own service manager has drop-ins of the user, and cannot give groups.
    @Test func aUsersOwnUnit() {
        let unit = DaemonUnit(
            name: "historyd.service", configuration: "/home/a/.config/systemd/user", isUser: true)
        let text = text(.readOnlyInSandbox("/data"), .group("team"), user: "a", unit: unit)
        #expect(
            text.contains("As root: usermod -aG team a As a: mkdir -p /home/a/.config/systemd/user"), "\(text)")
        #expect(text.hasSuffix("systemctl --user daemon-reload && systemctl --user restart historyd.service"))
    }

    /// One drop-in for each folder, whose name says all that is in it: no plan overwrites another one's, nor a file of an
    /// administrator's.
    @Test func dropInsDoNotOverwriteEachOther() {
        let paths =
            ["/", "/srv", "/srv/a", "/srv/a-b", "/srv/a/b", "/srv/a_b", "/srv/.a", "/srv/a\\x2db", "/srv/ü"]
            + (0..<3).map { String(repeating: "/long", count: 100) + "\($0)" }
        let dropIns = paths.flatMap { [DropIn.write($0), .show($0)] } + [.join("srv"), .join("contacts")]
        #expect(Set(dropIns.map(\.fileName)).count == dropIns.count)
        for name in dropIns.map(\.fileName) {
            #expect(!name.contains("/") && name.utf8.count <= 255 && name != "stores.conf", "\(name)")
            #expect(name.hasSuffix(".conf") && !name.hasPrefix("."))
        }
    }

    /// A folder that is gone does not keep the unit from starting, and with it the other stores.
    @Test func aMissingFolderStopsNothing() {
        #expect(DropIn.write("/srv/a").lines == ["ReadWritePaths=-/srv/a"])
        #expect(DropIn.show("/home/a/b").lines == ["ProtectHome=tmpfs", "BindPaths=-/home/a/b"])
        #expect(DropIn.write("/srv/a b").lines == ["ReadWritePaths=\"-/srv/a b\""])
    }

    /// What opens the sandbox for plugins is the same by hand and by what is printed.
    @Test(arguments: SandboxLimits.Need.allCases) func dropInsForPluginsAreTheExamples(need: SandboxLimits.Need)
        throws
    {
        let dropIn = DropIn.allow(need)
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let example = try String(
            contentsOf: root.appending(path: "systemd/examples/\(dropIn.fileName)"), encoding: .utf8)
        let lines = example.split(separator: "\n").filter { !$0.hasPrefix("#") }.map(String.init)
        #expect(lines == ["[Service]"] + dropIn.lines)
    }

    @Test(arguments: AccessAdviceTests.names)
    func aDropInIsWrittenAsItIs(name: String) async throws {
        let folder = try TemporaryFolder()
        let unit = DaemonUnit(name: "historyd.service", configuration: folder.path)
        let dropIn = DropIn.write("/srv/\(name)")
        for _ in 1...2 { try await Command("sh", ["-c", unit.command(dropIn)]).succeed() }
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.file("historyd.service.d"))
        #expect(files == [dropIn.fileName])
        let lines = try String(
            contentsOfFile: folder.file("historyd.service.d/\(dropIn.fileName)"), encoding: .utf8)
        #expect(
            lines.hasSameBytes(
                as: "[Service]\nReadWritePaths=\(ShellText.quoteForUnit("-/srv/\(name)"))\n"))
    }

    // MARK: The daemon's own unit

    private static let user = "/user.slice/user-1000.slice/user@1000.service"

    @Test(
        arguments: [
            ("0::/system.slice/historyd.service", "historyd.service"),
            ("0::/system.slice/system-historyd.slice/historyd@blog.service", "historyd@blog.service"),
            ("0::/system.slice/my-daemon.service", "my-daemon.service"),
            ("8:pids:/\n9:name=systemd:/lxc/x/system.slice/historyd.service\n0::/\n", "historyd.service"),
            ("0::/user.slice/user-1000.slice/session-1.scope", nil),
            ("0::\(user)/app.slice/terminal.scope", nil),
        ] as [(String, String?)])
    func theUnitIsTheControlGroups(cgroup: String, name: String?) {
        let environment = ["INVOCATION_ID": "1", "HOME": "/home/a"]
        #expect(DaemonUnit(cgroup: cgroup, environment: environment)?.name == name)
        #expect(DaemonUnit(cgroup: cgroup, environment: [:]) == nil)
    }

    @Test func aUsersUnitIsKnown() {
        let unit = DaemonUnit(
            cgroup: "0::\(Self.user)/app.slice/historyd.service",
            environment: ["INVOCATION_ID": "1", "HOME": "/home/a"])
        #expect(
            unit
                == DaemonUnit(
                    name: "historyd.service", configuration: "/home/a/.config/systemd/user", isUser: true))
    }

    /// In a namespace of control groups nothing of a unit is seen.
    @Test func aHiddenUnitIsKnownByItsFolder() {
        func name(_ runtime: String) -> String? {
            DaemonUnit(cgroup: "0::/\n", environment: ["INVOCATION_ID": "1", "RUNTIME_DIRECTORY": runtime])?
                .name
        }
        #expect(name("/run/historyd") == "historyd.service")
        #expect(name("/run/historyd-blog") == "historyd@blog.service")
        #expect(DaemonUnit(cgroup: "0::/\n", environment: ["INVOCATION_ID": "1"]) == nil)
    }
}
