import Foundation
import Glibc
import TestSupport
import Testing

/// Python packages that are clients of SQLite, in a virtual environment that is made once and kept
/// beside the build products.
enum ClientPackages {
    static let python = folder + "/bin/python"
    static let missing: Comment = """
        needs SQLAlchemy, Django, Alembic, sqlite-utils, apsw and mypy: .build/client-packages.log says why they could not be \
        installed (python3-venv, or the network)
        """

    /// Whether they are there: installed now where they were not.
    static let areThere: Bool = {
        let installed = installs()
        if !installed { print(RunningProgram.text(log)) }
        return installed
    }()

    private static let folder = Sources.path(".build/client-packages")
    private static let log = folder + ".log"

    /// Another test process may do the same: the lock lets one of them, and `complete-3` tells the other.
    private static let script = """
        [ -e "$1/complete-3" ] && exit 0
        exec 2>&1 9>"$1.lock"
        flock 9 || exit 1
        [ -e "$1/complete-3" ] && exit 0
        rm -rf "$1"
        "$2" -m venv "$1" &&
            "$1/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
                'SQLAlchemy>=2,<3' 'Django>=5,<6' 'alembic>=1.13,<2' 'sqlite-utils>=3.30,<4' 'apsw>=3.40' mypy &&
            touch "$1/complete-3"
        """

    /// Once a process, and before any test of it runs, so that it may wait.
    private static func installs() -> Bool {
        let arguments = ["/usr/bin/timeout", "300", "/bin/sh", "-c", script, "sh", folder, Python.path]
        // With the environment, which may name a proxy or another index.
        guard
            let program = try? RunningProgram(
                arguments, environment: ProcessInfo.processInfo.environment, files: folder)
        else { return false }
        var status: Int32 = 0
        waitpid(program.processID, &status, 0)
        unlink(program.errorFile)
        rename(program.outputFile, log)
        return status == 0
    }
}
