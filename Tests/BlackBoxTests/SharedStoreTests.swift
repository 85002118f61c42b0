import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// A store that an application and the daemon share, each a user of its own.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: Users.obstacle == nil, Comment(rawValue: Users.obstacle ?? "")), .timeLimit(.minutes(60)))
struct SharedStoreTests {
    /// How a folder and a store in it are set up. SQLite itself gives a new store the mode 644, less the mask.
    struct Sharing: Sendable, CustomTestStringConvertible {
        var folder = "chown root:$app . && chmod 2770 ."
        /// After the application has made the store.
        var store = "chmod 660 store"
        var mask = "022"
        var daemonGroups = [Users.app]
        /// What has to be done before the daemon can be first.
        var remedy: String?
        /// Whether the daemon can use the files that the application makes.
        var isMutual = true

        var testDescription: String { "\(folder); \(store); \(daemonGroups)" }
    }

    static let sharings = [
        Sharing(),
        Sharing(store: ":", remedy: "chmod g+rw"),
        Sharing(store: ":", mask: "027", remedy: "chmod g+rw"),
        Sharing(store: "setfacl -m u:$daemon:r,m::r store", mask: "077", remedy: "chmod g+rw"),
        // Without setgid the daemon gives the files the group itself, and the application does not.
        Sharing(folder: "chown root:$app . && chmod 0770 ."),
        Sharing(folder: "chown root:$app . && chmod 0770 .", store: ":", remedy: "chmod g+rw"),
        // By lists: for the folder, what is made in it, and the store.
        Sharing(
            folder:
                "chown $app:$app . && chmod 0700 . && setfacl -m u:$daemon:rwx . && setfacl -d -m u:$daemon:rw,u:$app:rw .",
            mask: "077", daemonGroups: []),
        // What the daemon makes is right for the application; what that makes is not for the daemon.
        Sharing(
            folder: "chown $app:$app . && chmod 0700 . && setfacl -m u:$daemon:rwx .",
            store: "setfacl -m u:$daemon:rw store", mask: "077", daemonGroups: [], isMutual: false),
        Sharing(
            folder: "chown $app:$app . && chmod 0700 . && setfacl -m u:$daemon:rwx .",
            store: "setfacl -m u:$daemon:r store", mask: "077", daemonGroups: [], remedy: "setfacl -m u:",
            isMutual: false),
        Sharing(folder: "chmod 0777 .", store: "chmod 666 store", mask: "000", daemonGroups: []),
    ]

    @Test("Whoever opens it first, the application can write it", arguments: sharings)
    func writing(_ sharing: Sharing) async throws {
        try await withWorkbench { bench in
            let shared = try await SharedStore(bench, sharing)
            try await shared.makeStore()
            // The daemon's user first, with nobody else there.
            let look = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            if let remedy = sharing.remedy {
                #expect(look.ending == .exited(77))
                #expect(look.errors.contains("would lock") && look.errors.contains(remedy), "\(look.errors)")
            } else {
                #expect(look.ending == .exited(0), "\(look.errors)")
            }
            try await shared.asApp("INSERT INTO person (id) VALUES (2)")
            // And with a writer that stays, of whoever's files.
            let writer = try await shared.startApp("INSERT INTO person (id) VALUES (3)")
            let again = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(again.ending == .exited(sharing.isMutual ? 0 : 77), "\(again.errors)")
            try await shared.asApp("INSERT INTO person (id) VALUES (4)")
            try await writer.destroy()
            try await shared.asApp("INSERT INTO person (id) VALUES (5)")
        }
    }

    @Test(
        "The daemon serves it while it can, and says what has to be changed",
        arguments: sharings)
    func serving(_ sharing: Sharing) async throws {
        try await withWorkbench { bench in
            let shared = try await SharedStore(bench, sharing)
            try bench.configure(
                StoreSetup(path: "shared/store", entities: nil), plugins: [])
            let daemon = try bench.launchDaemon(under: shared.daemonUser)
            try await daemon.ready()
            try await shared.makeStore()
            if let remedy = sharing.remedy {
                let line = try await eventually("the obstacle", state: { daemon.log.joined(separator: "\n") }) {
                    daemon.log.first { $0.contains("event=wouldLockOut") && $0.contains(remedy) }
                }
                try await shared.asApp("INSERT INTO person (id) VALUES (2)")
                // What the line says is done, and that is noticed.
                let command = try #require(line.firstMatch(of: /As root: (.*) It is tried again/)?.1)
                try await shared.asRoot(String(command))
            }
            // Where the app closed the store just while the daemon looked at it, the app's -wal is still there, and a
            // second line says what mends that: or it is gone by then, and the command finds nothing.
            var done = 1
            try await eventually("the store is open", state: { daemon.log.joined(separator: "\n") }) {
                let lines = daemon.log.filter { $0.contains("event=wouldLockOut") }
                for line in lines.dropFirst(done) {
                    guard let command = line.firstMatch(of: /As root: (.*) It is tried again/)?.1 else {
                        continue
                    }
                    try? await shared.asRoot(String(command))
                }
                done = max(done, lines.count)
                return daemon.log.contains { $0.contains("is open at") }
            }
            try await shared.asApp("INSERT INTO person (id) VALUES (3)")
            try await shared.restore()
            if sharing.remedy == nil { try await daemon.logged("is open at", times: 2) }
            try await shared.asApp("INSERT INTO person (id) VALUES (4)")
            try await daemon.stop()
            try await shared.asApp("INSERT INTO person (id) VALUES (5)")
        }
    }

    @Test("A file that another user left is told of, and ours are put right")
    func strayFiles() async throws {
        try await withWorkbench { bench in
            let shared = try await SharedStore(bench, Sharing())
            try await shared.makeStore()
            try await shared.asRoot(
                "touch store-wal store-shm; chown 61999:61999 store-wal store-shm; chmod 600 store-*")
            let look = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(look.ending == .exited(77))
            let command = try #require(look.errors.firstMatch(of: /As root: (.*)\n/)?.1)
            try await shared.asRoot(String(command))
            let again = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(again.ending == .exited(0), "\(again.errors)")
            try await shared.asApp("INSERT INTO person (id) VALUES (2)")
            try await shared.asRoot(
                "touch store-wal store-shm; chown $daemon:$daemon store-wal store-shm; chmod 600 store-*")
            let third = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(third.ending == .exited(0), "\(third.errors)")
            try await shared.asApp("INSERT INTO person (id) VALUES (3)")
        }
    }

    @Test("A link beside a store is not taken for its file, and no right on what it leads to is advised")
    func links() async throws {
        try await withWorkbench { bench in
            let shared = try await SharedStore(
                bench, Sharing(folder: "chmod 0777 .", store: "chmod 666 store", daemonGroups: []))
            try await shared.makeStore()
            for suffix in ["-wal", "-shm"] {
                try await shared.asRoot("touch secret; chmod 600 secret; ln -s secret store\(suffix)")
                let look = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
                #expect(look.ending == .exited(77))
                #expect(
                    look.errors.contains("store\(suffix)\" is a symbolic link")
                        && !look.errors.contains("As root"),
                    "\(look.errors)")
                try await shared.asRoot("rm store\(suffix)")
            }
            let look = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(look.ending == .exited(0), "\(look.errors)")
        }
    }

    @Test("A store that is not there is no question of rights")
    func missing() async throws {
        try await withWorkbench { bench in
            let shared = try await SharedStore(bench, Sharing(folder: "chmod 0755 ."))
            for path in [shared.path, "nowhere"] {
                let look = try await shared.asDaemon([Products.historyctl, "describe", path])
                #expect(look.ending == .exited(66))
                #expect(
                    look.errors.contains("Check the path") && !look.errors.contains("setfacl"), "\(look.errors)"
                )
            }
        }
    }

    @Test("What is advised for a private store opens nothing of it to its group")
    func privateStore() async throws {
        try await withWorkbench { bench in
            let group = 61003
            let shared = try await SharedStore(
                bench,
                Sharing(
                    folder: "chown $app:\(group) . && chmod 2750 . && setfacl -m u:$daemon:rwx .", store: ":",
                    mask: "077", daemonGroups: []))
            try await shared.makeStore()
            let look = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(look.ending == .exited(77))
            let command = try #require(look.errors.firstMatch(of: /As root: (.*)\n/)?.1)
            try await shared.asRoot(String(command))
            let writer = try await shared.startApp("INSERT INTO person (id) VALUES (2)")
            let again = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(again.ending == .exited(0), "\(again.errors)")
            for file in ["store", "store-wal", "store-shm"] {
                let reader = try bench.start(
                    Users.run(as: 61004, [group]) + ["/bin/cat", "\(shared.folder)/\(file)"], "reader-\(file)")
                #expect(try await reader.end() == .exited(1), "\(file)")
            }
            try await writer.destroy()
        }
    }

    @Test("A store that comes into WAL mode while it is served is not locked either")
    func intoWALMode() async throws {
        try await withWorkbench(.delete) { bench in
            let shared = try await SharedStore(bench, Sharing(store: ":", remedy: "chmod g+rw"))
            try bench.configure(StoreSetup(path: "shared/store", entities: nil), plugins: [])
            try await shared.makeStore()
            let daemon = try bench.launchDaemon(under: shared.daemonUser)
            try await daemon.logged("is open at")
            try await shared.asApp("PRAGMA journal_mode = WAL")
            for number in 2...10 {
                try await shared.asApp("INSERT INTO person (id) VALUES (\(number))")
                try await daemon.quiet()
            }
            // Where it looked while the application had the store open, it uses the application's files, which
            // then stay: no one is locked out either.
            try await eventually("the obstacle, or the application's own files") {
                daemon.log.contains { $0.contains("event=wouldLockOut") } || shared.hasFilesOfTheApp
            }
            try await daemon.stop()
            try await shared.asApp("INSERT INTO person (id) VALUES (11)")
        }
    }

    @Test("A rollback journal that would lock the application out is not written, and reading goes on")
    func rollbackJournal() async throws {
        try await withWorkbench(.delete) { bench in
            let shared = try await SharedStore(bench, Sharing(folder: "chown root:$app . && chmod 0770 ."))
            try await shared.makeStore()
            let refused = try await shared.asDaemon([
                Products.historyctl, "exec", shared.path, "--author", "A", "INSERT INTO person (id) VALUES (2)",
            ])
            #expect(refused.ending == .exited(77))
            #expect(
                refused.errors.contains("-journal") && refused.errors.contains("chmod g+s"), "\(refused.errors)"
            )
            let read = try await shared.asDaemon([Products.historyctl, "describe", shared.path])
            #expect(read.ending == .exited(0), "\(read.errors)")
            let command = try #require(refused.errors.firstMatch(of: /As root: (.*)\n/)?.1)
            try await shared.asRoot(String(command))
            let written = try await shared.asDaemon([
                Products.historyctl, "exec", shared.path, "--author", "A", "INSERT INTO person (id) VALUES (2)",
            ])
            #expect(written.ending == .exited(0), "\(written.errors)")
            try await shared.asApp("INSERT INTO person (id) VALUES (3)")
        }
    }
}

/// Users that need not have names.
enum Users {
    static let daemon = 61001
    static let app = 61002

    static let obstacle: String? = {
        guard getuid() == 0 else { return "only root can be two users" }
        for program in ["/usr/bin/setpriv", "/usr/bin/setfacl"] where access(program, X_OK) != 0 {
            return "\(program) is not installed"
        }
        return nil
    }()

    static func run(as user: Int, _ groups: [Int] = []) -> [String] {
        let groups =
            groups.isEmpty ? ["--clear-groups"] : ["--groups", groups.map(String.init).joined(separator: ",")]
        return ["/usr/bin/setpriv", "--reuid=\(user)", "--regid=\(user)"] + groups
    }
}

/// A folder on a workbench with a store that belongs to the application.
struct SharedStore {
    let bench: Workbench
    let sharing: SharedStoreTests.Sharing
    var folder: String { bench.path("shared") }
    var path: String { folder + "/store" }
    var daemonUser: [String] { Users.run(as: Users.daemon, sharing.daemonGroups) }

    init(_ bench: Workbench, _ sharing: SharedStoreTests.Sharing) async throws {
        self.bench = bench
        self.sharing = sharing
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try await asRoot(sharing.folder)
        // The state is the daemon's own.
        try FileManager.default.createDirectory(atPath: bench.path("state"), withIntermediateDirectories: false)
        try await asRoot("chown $daemon:$daemon '\(bench.path("state"))'; chmod 755 '\(bench.folder.path)'")
    }

    func asRoot(_ script: String) async throws {
        try await bench.start(
            ["/bin/sh", "-ec", "cd '\(folder)'; app=\(Users.app) daemon=\(Users.daemon); \(script)"],
            "root-\(UUID().uuidString)"
        ).succeed()
    }

    /// Makes a tracked store as the application does, and puts it in its place when it is finished and closed: while
    /// the application has it open, its own files are there, and the daemon locks nobody out.
    func makeStore(_ name: String = "store") async throws {
        let script = """
            umask \(sharing.mask); sqlite3 -bail \(name).new 'PRAGMA journal_mode = \(bench.journal.rawValue)' \
            "\(Workbench.schema)" 'INSERT INTO person (id) VALUES (1)' && \
            '\(Products.historyctl)' track \(name).new person item && mv \(name).new \(name)
            """
        try await start(Users.run(as: Users.app) + ["/bin/sh", "-ec", "cd '\(folder)'; \(script)"]).succeed()
        try await asRoot(sharing.store)
    }

    /// As the documentation says: a backup, the old files away, the new one in their place.
    func restore() async throws {
        let script = """
            umask \(sharing.mask); sqlite3 -bail store '.backup copy' && rm -f store-wal store-shm && mv copy store
            """
        try await start(Users.run(as: Users.app) + ["/bin/sh", "-ec", "cd '\(folder)'; \(script)"]).succeed()
        try await asRoot(sharing.store)
    }

    /// Whether there is a `-shm` that the application made.
    var hasFilesOfTheApp: Bool {
        var status = stat()
        return stat(path + "-shm", &status) == 0 && Int(status.st_uid) == Users.app
    }

    func asApp(_ sql: String) async throws {
        try await start(
            Users.run(as: Users.app) + [Products.shell, "-bail", path, ".timeout 10000", sql]
        ).succeed()
    }

    /// A connection that stays open.
    func startApp(_ sql: String) async throws -> RunningProgram {
        let program = try start(
            Users.run(as: Users.app) + [
                Products.python, "-c",
                """
                import sqlite3, sys, time
                connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
                connection.execute(sys.argv[2])
                print('written', flush=True)
                time.sleep(1000)
                """, path, sql,
            ])
        try await eventually("the writing", state: { program.errors }) { program.output == "written\n" }
        return program
    }

    func asDaemon(_ arguments: [String]) async throws -> (ending: RunningProgram.Ending, errors: String) {
        let program = try start(daemonUser + arguments)
        return (try await program.end(), program.errors)
    }

    private func start(_ arguments: [String]) throws -> RunningProgram {
        try bench.start(arguments, "user-\(UUID().uuidString)")
    }
}
