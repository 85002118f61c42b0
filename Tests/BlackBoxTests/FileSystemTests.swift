import Foundation
import Glibc
import TestSupport
import Testing

/// A store on a file system of which inotify does not report everything: a FUSE mount whose folder others write to.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: FUSE.obstacle == nil, Comment(rawValue: FUSE.obstacle ?? "")),
    .timeLimit(.minutes(60)))
struct FileSystemTests {
    @Test("What is written behind a FUSE mount is delivered, and doctor notes why it is looked at")
    func behindTheMount() async throws {
        try await withWorkbench(.delete) { bench in
            let (back, mount) = (bench.path("back"), bench.path("mount"))
            for folder in [back, mount] {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            }
            // As coherent as a FUSE file system can be.
            try await Command(
                "/usr/bin/bindfs", ["-o", "direct_io,attr_timeout=0,entry_timeout=0", back, mount]
            ).succeed()
            let result: Result<Void, any Error>
            do {
                result = .success(try await serve(bench, back: back))
            } catch {
                result = .failure(error)
            }
            try await Command("/bin/umount", ["--lazy", mount]).succeed()
            try result.get()
        }
    }

    private func serve(_ bench: Workbench, back: String) async throws {
        let behind = back + "/store.sqlite"
        try await bench.sql("CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)", of: behind)
        try bench.configure(
            StoreSetup(
                path: "mount/store.sqlite", entities: #"{"person": {}}"#, authors: StoreSetup.mirrored()),
            plugins: [])
        let daemon = try await bench.startDaemon()
        try await daemon.logged("is open at")
        for id in 1...3 {
            try await bench.sql("INSERT INTO person (id) VALUES (\(id))", of: behind)
            // Before the first row, there is no table.
            try await eventually("the replica") {
                (try? await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite")))
                    == "\(id)\n"
            }
        }
        let doctor = try await bench.ctl("doctor")
        #expect(doctor.output.contains("a file system (FUSE) that does not report"), "\(doctor)")
        try await daemon.stop()
    }
}

/// File systems of programs.
enum FUSE {
    static let obstacle: String? = {
        if geteuid() != 0 { return "only root can mount" }
        if access("/usr/bin/bindfs", X_OK) != 0 { return "bindfs is not installed" }
        return access("/dev/fuse", R_OK | W_OK) == 0 ? nil : "there is no FUSE"
    }()
}
