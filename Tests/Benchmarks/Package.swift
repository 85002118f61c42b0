// swift-tools-version: 6.2
import PackageDescription

/// As in the package that is measured.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let sqlite: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")

// What measures the programs from outside, apart from the package of what is measured: nothing of it is built again.
let package = Package(
    name: "historyd-bench",
    dependencies: [
        // For the name of SQLite's module alone.
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    ],
    targets: [
        // The sources of two targets are those of the other package.
        .target(
            name: "CSQLiteHistory", dependencies: [sqlite], path: "CSQLiteHistory",
            cSettings: [.define("SQLITE_CORE")]),
        .target(name: "CoreDataStores", dependencies: [sqlite], path: "CoreDataStores", swiftSettings: strict),
        .executableTarget(
            name: "historyd-bench", dependencies: ["CoreDataStores", "CSQLiteHistory", arguments, sqlite],
            path: "historyd-bench", swiftSettings: strict),
        .testTarget(
            name: "BenchTests", dependencies: ["historyd-bench"], path: "BenchTests", swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
