import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What an operator is to copy into a shell of root's.
@Suite struct AccessAdviceTests {
    /// Names that a shell, a format of printf or a unit would read otherwise; to `String` a quote and an accent behind it
    /// are one character.
    static let names = [
        "plain", "two words", "it's", "'\u{301}$(touch hacked)'", "100%s", "a\\b", "\"quoted\"",
        "\u{301}accent",
    ]

    @Test(arguments: names)
    func pathsAreQuoted(name: String) async throws {
        let path = "/\(name)"
        let printed = try await Command("sh", ["-c", "printf %s \(ShellText.quote(path))"]).succeed()
        #expect(printed.hasSameBytes(as: path))
        #expect(PathNames.parent(of: "/a/\(name)").hasSameBytes(as: "/a"))
    }

    @Test(arguments: names)
    func aPathIsFollowedNameByName(name: String) throws {
        let folder = try TemporaryFolder()
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/\(name)", withIntermediateDirectories: false)
        let trail = PathTrail(following: "\(folder.path)/./\(name)/store")
        let names = folder.path.split(separator: "/").map(String.init) + [name, "store"]
        #expect(trail.lookups.map(\.name).haveSameBytes(as: names))
    }

    /// Rights on a home or on a folder of the system are not advised: they concern more than the store.
    @Test func whatHoldsMoreThanStores() {
        for folder in [
            "/", "/home", "/home/alice", "/root", "/run/user/1000", "/srv", "/tmp", "/usr/local", "/var/lib",
        ] {
            #expect(AccessAdvice.holdsMore(folder), "\(folder)")
        }
        for folder in ["/srv/contacts", "/home/alice/contacts", "/var/lib/contacts", "/opt/contacts"] {
            #expect(!AccessAdvice.holdsMore(folder), "\(folder)")
        }
    }

    @Test func aUnitReadsAPathAsItIs() {
        #expect(ShellText.quoteForUnit("/srv/a-b") == "/srv/a-b")
        #expect(ShellText.quoteForUnit("/srv/100% a\\b\"") == #""/srv/100%% a\\b\"""#)
    }

    private static let unit = DaemonUnit(name: "historyd.service")

    /// A sandbox leaves nothing of a home; rights on the folder that holds all of them would not help, and harm.
    @Test(arguments: ["/home/nobody-has-this/notes", "/root/nobody-has-this/notes", "/run/user/0x/notes"])
    func whatTheSandboxHidesIsShown(folder: String) throws {
        let home = folder.hasPrefix("/run") ? "/run/user" : "/" + folder.split(separator: "/")[0]
        for mount in ["/host/inaccessible/dir \(home) ro - tmpfs tmpfs rw", "/ \(home) rw - tmpfs tmpfs rw"] {
            let mounts = MountTable("1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 \(mount)\n")
            let advice = try #require(
                AccessAdvice(folder + "/store.sqlite", unit: Self.unit, mounts: mounts))
            #expect(advice.isHidden && advice.obstacles.first == .hiddenHome(folder))
            #expect(AccessAdvice(folder + "/store.sqlite", unit: nil, mounts: mounts) == nil)
            let text = advice.text(user: "historyd", unit: Self.unit)
            #expect(text.contains("ProtectHome=tmpfs BindPaths=-\(folder)"), "\(text)")
            // Rights on the folder, in the same round, and on none that holds more.
            #expect(text.contains("setfacl -m u:historyd:rwx \(folder)"), "\(text)")
            #expect(!text.contains("\(home) "), "\(text)")
        }
    }

    /// Where the sandbox is in the way as well as rights, both are named at once: the kernel says only one of them.
    @Test func aReadOnlyMountIsNamed() throws {
        let folder = try TemporaryFolder()
        try folder.write("store", "")
        let path = folder.file("store")
        let real = StorePath.real(folder.path)
        func mounts(_ options: String, _ ofSystem: String = "rw") -> MountTable {
            MountTable(
                "1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / \(real) \(options),relatime shared:1 - ext4 /dev/sdb \(ofSystem)"
            )
        }
        #expect(AccessAdvice(path, unit: Self.unit, mounts: mounts("rw")) == nil)
        #expect(
            AccessAdvice(path, unit: Self.unit, mounts: mounts("ro"))?.obstacles == [.readOnlyInSandbox(real)])
        #expect(AccessAdvice(path, unit: nil, mounts: mounts("ro"))?.obstacles == [.readOnlyMount(real)])
        // No drop-in makes a file system writable.
        #expect(
            AccessAdvice(path, unit: Self.unit, mounts: mounts("ro", "ro"))?.obstacles == [
                .readOnlyMount(real)
            ])
    }

    @Test func mountsCoverEachOther() {
        let table = MountTable(
            """
            1 0 0:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda rw
            2 1 0:1 / /srv ro - ext4 /dev/sda rw
            3 2 0:1 /a\\040b /srv/a\\040b rw - ext4 /dev/sda rw

            """)
        #expect(table.mount(of: "/srv/a b/c")?.path == "/srv/a b")
        #expect(table.mount(of: "/srv/a")?.isReadOnly == true)
        #expect(table.mount(of: "/srvx")?.path == "/")
        #expect(table.mount(of: "/srv/a b")?.isReadOnly == false)
    }
}
