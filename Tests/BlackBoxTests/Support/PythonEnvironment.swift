import Foundation
import Glibc
import TestSupport

/// Python packages in a virtual environment that is made once and kept beside the build products.
struct PythonEnvironment: Sendable {
    let folder: String
    let packages: [String]
    /// Another one where other packages are needed.
    let version: Int

    init(_ name: String, version: Int, _ packages: String...) {
        folder = Sources.path(".build/\(name)")
        self.packages = packages
        self.version = version
    }

    var python: String { folder + "/bin/python" }
    private var log: String { folder + ".log" }

    /// Another test process may do the same: the lock lets one of them, and the file `complete` tells the other.
    private static let script = """
        folder=$1 python=$2 complete=$1/complete-$3
        shift 3
        [ -e "$complete" ] && exit 0
        exec 2>&1 9>"$folder.lock"
        flock 9 || exit 1
        [ -e "$complete" ] && exit 0
        rm -rf "$folder"
        "$python" -m venv "$folder" &&
            "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$@" &&
            touch "$complete"
        """

    /// Installs them where they are not there. Once a process, and before any test of it runs, so that it may wait.
    func installs() -> Bool {
        let arguments =
            [
                "/usr/bin/timeout", "300", "/bin/sh", "-c", Self.script, "sh", folder, Python.path,
                String(version),
            ]
            + packages
        // With the environment, which may name a proxy or another index.
        guard
            let program = try? RunningProgram(
                arguments, environment: ProcessInfo.processInfo.environment, files: folder)
        else { return false }
        var status: Int32 = 0
        waitpid(program.processID, &status, 0)
        unlink(program.errorFile)
        rename(program.outputFile, log)
        if status != 0 { print(RunningProgram.text(log)) }
        return status == 0
    }
}
