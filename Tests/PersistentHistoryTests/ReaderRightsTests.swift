import Foundation
import Glibc
import TestSupport
import Testing

@testable import PersistentHistory

/// Who may read a file is what access(2) says to a process of that user.
@Suite(.enabled(if: geteuid() == 0, "only root can be somebody else")) struct ReaderRightsTests {
    /// What the kernel says to a process with this user and these groups.
    private func kernelSays(_ path: String, _ user: UInt32, _ groups: Set<UInt32>) throws -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/setpriv")
        let first = groups.min() ?? 65000
        process.arguments = [
            "--reuid=\(user)", "--regid=\(first)", "--groups=\(groups.map(String.init).joined(separator: ","))",
            "/usr/bin/test", "-r", path,
        ]
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    @Test("Modes and access control lists of the file and its folders, drawn at random", arguments: 1...6)
    func likeAccess(seed: UInt64) throws {
        let tools = ["/usr/bin/setpriv", "/usr/bin/test"]
        try #require(tools.allSatisfy { FileManager.default.isExecutableFile(atPath: $0) })
        var random = Seed(seed)
        let folder = try TemporaryFolder()
        chmod(folder.path, 0o755)
        let users: [UInt32] = [61001, 61002]
        let groups: [UInt32] = [62001, 62002]
        let hasLists = FileManager.default.isExecutableFile(atPath: "/usr/bin/setfacl")
        for round in 0..<8 {
            let outer = folder.file("outer\(round)")
            let file = outer + "/store.sqlite"
            try FileManager.default.createDirectory(atPath: outer, withIntermediateDirectories: false)
            #expect(FileManager.default.createFile(atPath: file, contents: Data()))
            for path in [outer, file] {
                chown(path, users.randomElement(using: &random) ?? 0, groups.randomElement(using: &random) ?? 0)
                chmod(path, mode_t.random(in: 0...0o777, using: &random))
                guard hasLists, Bool.random(using: &random) else { continue }
                let rights = ["---", "r--", "r-x", "--x"]
                func right() -> String { rights.randomElement(using: &random) ?? "---" }
                let setfacl = Process()
                setfacl.executableURL = URL(filePath: "/usr/bin/setfacl")
                setfacl.arguments = [
                    "-m", "u:\(users[0]):\(right()),g:\(groups[1]):\(right()),m::\(right())", path,
                ]
                setfacl.standardError = FileHandle.nullDevice
                try setfacl.run()
                setfacl.waitUntilExit()
            }
            for user in users + [61003] {
                for memberships in [[], [groups[0]], Set(groups)] as [Set<UInt32>] {
                    let rights = ReaderRights(
                        userID: user, groups: memberships.isEmpty ? [65000] : memberships)
                    #expect(
                        rights.mayRead(file)
                            == (try kernelSays(file, user, memberships.isEmpty ? [65000] : memberships)),
                        "seed \(seed), round \(round), user \(user), groups \(memberships)")
                }
            }
        }
    }

    @Test("A file that is not there, or whose way cannot be followed, is readable to nobody but root")
    func missing() throws {
        let folder = try TemporaryFolder()
        let nobody = ReaderRights(userID: 61001, groups: [65000])
        #expect(!nobody.mayRead(folder.file("nothing")))
        #expect(!nobody.mayRead(folder.path))
    }
}
