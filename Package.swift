// swift-tools-version: 6.2
import PackageDescription

/// One set of rules for every target: the Swift 6 language mode, explicit existentials, imports
/// that stay inside the module unless they are said to be public, and no warnings at all.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
let sqlite: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let collections: Target.Dependency = .product(name: "DequeModule", package: "swift-collections")
let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"),
]

/// What `make build` knows of the tag and the commit; nil where the package is built otherwise.
let version: [CSetting] =
    Context.environment["HISTORYD_VERSION"].flatMap {
        $0.isEmpty ? nil : [.define("HISTORYD_VERSION", to: "\"\($0)\"")]
    } ?? []

let package = Package(
    name: "historyd",
    products: [
        .library(name: "PersistentHistory", targets: ["PersistentHistory"]),
        .library(name: "HistoryFeed", targets: ["HistoryFeed"]),
        .executable(name: "historyd", targets: ["historyd"]),
        .executable(name: "historyctl", targets: ["historyctl"]),
        .executable(name: "historyd-nats", targets: ["historyd-nats"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        // The loadable extension, also linked into the library for its own connections.
        .target(name: "CSQLiteHistory", dependencies: [sqlite], cSettings: [.define("SQLITE_CORE")]),
        // What the kernel, the C library and the Swift runtime have, and Swift does not see.
        .target(name: "CPlatform"),
        .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
        // For historyd-nats alone: it has threads of its own.
        .systemLibrary(name: "CNats", pkgConfig: "libnats", providers: [.apt(["libnats-dev"])]),
        // A part of OpenSSL, which libnats needs.
        .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        // The other part, which reports its TLS objects.
        .systemLibrary(name: "CTLS", pkgConfig: "libssl", providers: [.apt(["libssl-dev"])]),
        // The version, in a target of its own: little is built again when it changes.
        .target(name: "CVersion", cSettings: version),
        // Keeps ICU's data out of the programs.
        .target(
            name: "CNoLocaleData",
            cSettings: [.define("WITHOUT_LOCALE_DATA", .when(configuration: .release))]),

        // What the library and the programs that are connected to a daemon share: no SQLite.
        .target(
            name: "HistoryBase", dependencies: ["CPlatform", "CVersion", collections], swiftSettings: strict),
        .target(
            name: "PersistentHistory",
            dependencies: ["CPlatform", "CSQLiteHistory", "HistoryBase", grdb, sqlite, logging, collections],
            swiftSettings: strict),
        .target(
            name: "HistoryConfiguration", dependencies: ["HistoryBase", "PersistentHistory"],
            swiftSettings: strict),
        .target(
            name: "HistoryPlugins",
            dependencies: [
                "PersistentHistory", "HistoryConfiguration", "CPlatform", logging, lifecycle, collections,
            ],
            swiftSettings: strict),
        // What the daemon and historyctl say to each other.
        .target(
            name: "HistoryControl", dependencies: ["HistoryBase"] + nio, swiftSettings: strict),
        // For programs that are connected to a feed.
        .target(
            name: "HistoryFeed", dependencies: ["HistoryBase", "HistoryControl", logging], swiftSettings: strict
        ),
        .target(
            name: "HistoryDaemon",
            dependencies: [
                "PersistentHistory", "HistoryConfiguration", "HistoryPlugins", "HistoryControl", "CPlatform",
                "CSystemd", logging, lifecycle,
            ] + nio,
            swiftSettings: strict),

        .executableTarget(
            name: "historyd",
            dependencies: [
                "CNoLocaleData", "HistoryDaemon", "HistoryConfiguration", "HistoryControl", "PersistentHistory",
                arguments, logging,
            ],
            swiftSettings: strict),
        // Mirrors of a store on other machines: their files, and what is sent of a store.
        .target(
            name: "HistoryMirrors", dependencies: ["CCrypto", "PersistentHistory", grdb, sqlite],
            swiftSettings: strict),
        // Publishing to a stream and following it, without a connection.
        .target(
            name: "HistoryNATS",
            dependencies: [
                "HistoryConfiguration", "HistoryDaemon", "HistoryMirrors", "PersistentHistory", collections,
                logging,
            ], swiftSettings: strict),
        .executableTarget(
            name: "historyd-nats",
            dependencies: [
                "CNats", "CNoLocaleData", "CPlatform", "CTLS",
                "HistoryMirrors", "HistoryNATS", "HistoryDaemon", "HistoryConfiguration", "HistoryControl",
                "HistoryFeed", "PersistentHistory", arguments, logging, lifecycle,
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "historyctl",
            dependencies: [
                "CNoLocaleData", "CPlatform", "HistoryBase", "PersistentHistory", "HistoryConfiguration",
                "HistoryControl", arguments,
            ],
            resources: ["html", "css", "js"].map { .embedInCode("HTMLReport/report.\($0)") },
            swiftSettings: strict),
        // Both at once, for `make run`.
        .target(name: "Programs", dependencies: ["historyctl", "historyd"], swiftSettings: strict),

        // SQLite's default VFS in the tests: files on disks that fail when they are told to.
        .target(name: "CFaultVFS", dependencies: [sqlite], path: "Tests/Support/CFaultVFS"),
        .target(
            name: "TestSupport", dependencies: ["PersistentHistory", grdb, logging],
            path: "Tests/Support/TestSupport", swiftSettings: strict),
        // Writes stores as Core Data does, and knows what is in them.
        .target(
            name: "CoreDataStores", dependencies: [sqlite], path: "Tests/Support/CoreDataStores",
            swiftSettings: strict),
        .testTarget(
            name: "PersistentHistoryTests",
            dependencies: [
                "CoreDataStores", "HistoryBase", "HistoryFeed", "PersistentHistory", "TestSupport", grdb,
                logging, sqlite,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "DifferentialTests",
            dependencies: ["PersistentHistory", "CSQLiteHistory", "TestSupport", sqlite],
            swiftSettings: strict),
        // Every fault of a disk, at every moment.
        .testTarget(
            name: "FaultTests",
            dependencies: [
                "CFaultVFS", "HistoryMirrors", "HistoryNATS", "PersistentHistory", "TestSupport", grdb, sqlite,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "HistoryConfigurationTests",
            dependencies: ["HistoryBase", "HistoryConfiguration", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "HistoryPluginsTests",
            dependencies: [
                "HistoryBase", "HistoryConfiguration", "HistoryPlugins", "TestSupport", logging, lifecycle,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "HistoryControlTests",
            dependencies: ["HistoryControl", "HistoryFeed", "PersistentHistory", "TestSupport", logging],
            swiftSettings: strict),
        .testTarget(
            name: "HistoryDaemonTests",
            dependencies: [
                "HistoryDaemon", "HistoryConfiguration", "HistoryControl", "TestSupport", logging, lifecycle,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "HistoryNATSTests",
            dependencies: ["HistoryMirrors", "HistoryNATS", "PersistentHistory", "TestSupport", grdb, sqlite],
            swiftSettings: strict),
        .testTarget(
            name: "BlackBoxTests",
            dependencies: ["CoreDataStores", "TestSupport", "PersistentHistory", "HistoryFeed"],
            exclude: ["Clients", "Migrations"],
            swiftSettings: strict),
        .testTarget(
            name: "SystemdTests", dependencies: ["TestSupport", "HistoryDaemon", "ServiceProbe"],
            exclude: [
                "boot-container", "hook-path", "operator-path", "page-path", "remedy-path", "monitoring-path",
                "nats-path",
                "package-path", "promote-path",
            ],
            swiftSettings: strict),
        // Without the simulation's program itself, which would stand in for libc in all tests.
        .testTarget(name: "SimulationTests", dependencies: ["TestSupport"], swiftSettings: strict),
        // What a simulated process takes for libc and the kernel.
        .target(name: "CSimulation", path: "Tests/Support/CSimulation"),
        .executableTarget(
            name: "historyd-simulation",
            dependencies: [
                "CSimulation", "HistoryConfiguration", "HistoryControl", "HistoryDaemon", "HistoryMirrors",
                "HistoryNATS", "PersistentHistory",
                "TestSupport", grdb, logging, arguments,
            ],
            path: "Tests/Simulation", swiftSettings: strict,
            // Plugins are threads of the simulation, in the place of processes.
            linkerSettings: [
                .unsafeFlags(
                    ["start", "has_ended", "reap"].flatMap { ["-Xlinker", "--wrap=cplatform_\($0)"] })
            ]),
        // Stands in for the daemon where it is systemd that is tested.
        .executableTarget(
            name: "ServiceProbe", dependencies: ["HistoryDaemon", "HistoryConfiguration", logging, lifecycle],
            path: "Tests/Support/ServiceProbe", swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
