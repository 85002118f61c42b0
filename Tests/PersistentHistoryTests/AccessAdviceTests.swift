import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What an operator is to copy into a shell of root's.
@Suite struct AccessAdviceTests {
    /// Names that a shell, a format of printf or a unit would read otherwise; to `String` a quote and an accent behind it
    /// are one character.
    private static let names = [
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

    @Test(arguments: names)
    func aDropInNamesTheFolder(name: String) async throws {
        let folder = try TemporaryFolder()
        let text = AccessAdvice.openSandbox(folder: "/srv/\(name)").text()
        let command = try #require(text.firstRange(of: "printf")).lowerBound
        let end = try #require(text.firstRange(of: " > /etc")).lowerBound
        try await Command("sh", ["-c", "cd \(folder.path) && \(text[command..<end]) > unit"]).succeed()
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["unit"])
        let lines = try String(contentsOfFile: folder.file("unit"), encoding: .utf8)
        #expect(
            lines.hasSameBytes(
                as: "[Service]\nReadWritePaths=\(ShellText.quoteForUnit("/srv/\(name)"))\n"))
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

    /// A sandbox leaves nothing of a home; rights on the folder that holds all of them would not help, and harm.
    @Test(arguments: ["/home/nobody-has-this/notes", "/root/nobody-has-this/notes", "/run/user/0x/notes"])
    func whatTheSandboxHidesIsShown(folder: String) throws {
        let path = folder + "/store.sqlite"
        #expect(AccessAdvice(path, isService: true) == .showHome(folder: folder))
        #expect(AccessAdvice(path, isService: false) == nil)
        let text = AccessAdvice.showHome(folder: folder).text()
        #expect(text.contains("ProtectHome=tmpfs") && text.contains("BindPaths=-\(folder)"), "\(text)")
        #expect(!text.contains("setfacl"), "\(text)")
    }

    @Test func rightsOnASharedFolderAreNotAdvised() {
        #expect(!AccessAdvice.moveStore(folder: "/home").text().contains("setfacl"))
    }

    /// One command for both: who has followed one advice is not to meet the next one.
    @Test func aFolderIsAdvisedWithItsStore() {
        let text = AccessAdvice.writeFolder("/srv/contacts", store: "/srv/contacts/c.sqlite").text(
            user: "historyd")
        #expect(
            text
                == "As root: setfacl -m u:historyd:rwx /srv/contacts && setfacl -m u:historyd:rw /srv/contacts/c.sqlite"
        )
    }

    /// An access control list does not concern the owner: to a user's own file, `setfacl -m u:` lets no user in.
    @Test func anOwnerIsAdvisedToChangeTheMode() throws {
        let folder = try TemporaryFolder()
        try folder.write("store", "")
        let path = folder.file("store")
        let owner = Accounts.name(ofUser: geteuid())
        #expect(AccessAdvice.readStore(path).text(user: owner) == "As \(owner): chmod u+rw \(path)")
        #expect(
            AccessAdvice.readFolder(folder.path).text(user: owner) == "As \(owner): chmod u+rwx \(folder.path)")
        #expect(
            AccessAdvice.readStore(path).text(user: "app").hasPrefix("As root: setfacl -m u:app:rw \(path)"))
    }
}
