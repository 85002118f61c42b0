import Foundation
import TestSupport
import Testing

/// A library in C that is loaded into a program before all others, and stands in for some calls of the system.
enum PreloadedLibrary {
    static let compiler = ["/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang", "/opt/swift/usr/bin/clang"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
    static let missing: Comment =
        "There is no C compiler, which makes the library that stands in for calls of the system."

    /// - Returns: The environment of a program that loads it.
    static func environment(_ name: String, _ source: String, _ bench: Workbench) async throws -> [String:
        String]
    {
        let compiler = try #require(compiler)
        let (file, library) = (bench.path("\(name).c"), bench.path("\(name).so"))
        try bench.folder.write("\(name).c", source)
        try await bench.start(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, file, "-ldl"], "compiler-\(name)"
        ).succeed()
        return ["LD_PRELOAD": library]
    }
}
