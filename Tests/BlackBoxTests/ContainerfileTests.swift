import Foundation
import TestSupport
import Testing

/// The recipe of the container's image, as far as it can be checked where no image can be fetched.
@Suite(.timeLimit(.minutes(60))) struct ContainerfileTests {
    private let recipe: String

    init() throws {
        recipe = try String(contentsOfFile: Sources.path("config/packaging/Containerfile"), encoding: .utf8)
    }

    /// What a stage installs.
    private func packages(ofStage stage: Int) throws -> Set<Substring> {
        let stages = recipe.components(separatedBy: "\nFROM ").dropFirst()
        let text = try #require(stages.dropFirst(stage).first)
        let list = try #require(text.firstMatch(of: /--no-install-recommends([^&]*)&&/)?.1)
        return Set(list.split { $0.isWhitespace || $0 == "\\" })
    }

    @Test("It installs what a build needs, so that the Makefile has nothing to install")
    func build() throws {
        let makefile = try String(contentsOfFile: Sources.path("Makefile"), encoding: .utf8)
        let needed = try #require(makefile.firstMatch(of: /\nPACKAGES\s*= (.*)\n/)?.1)
        #expect(try packages(ofStage: 0) == Set(needed.split(separator: " ")).union(["make", "pkg-config"]))
    }

    @Test("Its image has the libraries that the programs are linked with")
    func libraries() async throws {
        var libraries: Set<Substring> = []
        for program in ["historyd", "historyctl"] {
            let output = try await Command("ldd", ["\(BuiltProducts.folder)/\(program)"]).succeed()
            // Those of Swift are in the programs, in a build for use.
            libraries.formUnion(
                output.split(separator: "\n").compactMap {
                    $0.firstMatch(of: /=> (\S*lib(?:sqlite3|systemd|ssl|crypto|nats)\.so\S*)/)?.1
                })
        }
        var packages: Set<Substring> = []
        for library in libraries {
            let path = try await Command("realpath", [String(library)]).succeed().trimmingCharacters(
                in: .newlines)
            packages.insert(try await Command("dpkg", ["-S", path]).succeed().prefix { $0 != ":" })
        }
        #expect(try packages == self.packages(ofStage: 1))
    }

    @Test(
        "A builder that has the images makes it, and the image runs",
        .enabled(
            if: ContainerBuilder.hasImages,
            "needs podman or docker, with the images that the recipe begins with"))
    func image() async throws {
        let builder = try #require(ContainerBuilder.path)
        try await Command(
            builder,
            ["build", "--tag", "historyd-test", "--file", "config/packaging/Containerfile", Sources.path(".")],
            limit: .seconds(3600)
        ).succeed()
        let version = try await Command(builder, ["run", "--rm", "historyd-test", "--version"]).succeed()
        #expect(version.hasPrefix("0."))
    }
}

private enum ContainerBuilder {
    static let path = ["/usr/bin/podman", "/usr/bin/docker"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    static let hasImages: Bool = {
        guard let path else { return false }
        return ["docker.io/library/swift:6.3-bookworm", "docker.io/library/debian:bookworm-slim"].allSatisfy {
            image in
            let program = Process()
            program.executableURL = URL(fileURLWithPath: path)
            program.arguments = ["image", "inspect", image]
            (program.standardOutput, program.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
            guard (try? program.run()) != nil else { return false }
            program.waitUntilExit()
            return program.terminationStatus == 0
        }
    }()
}
