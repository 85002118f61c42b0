import Foundation
import Glibc
import TestSupport

/// Python packages in a virtual environment that is made once and kept beside the build products. What is in it is
/// listed in `Clients/NAME.txt`.
struct PythonEnvironment: Sendable {
    private let name: String
    private let folder: String

    init(_ name: String) {
        self.name = name
        folder = Sources.path(".build/\(name)")
    }

    var python: String { program("python") }

    func program(_ name: String) -> String { folder + "/bin/" + name }

    /// Installs them where they are not there, or waits for `make test` to have done so. Once a process, and before any
    /// test of it runs, so that it may wait.
    func installs() -> Bool {
        // With the environment, which may name a proxy or another index.
        let files = NSTemporaryDirectory() + "historyd-test-\(name)-\(getpid())"
        guard
            let program = try? RunningProgram(
                [Sources.path("Tests/BlackBoxTests/Clients/install-packages"), name],
                environment: ProcessInfo.processInfo.environment, files: files)
        else { return false }
        let ending = program.waitForEnd()
        unlink(program.outputFile)
        unlink(program.errorFile)
        if ending != .exited(0) { print(RunningProgram.text(folder + ".log")) }
        return ending == .exited(0)
    }
}
