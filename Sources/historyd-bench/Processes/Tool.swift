import FoundationEssentials

/// Programs that may be installed, and that are measured or used where they are.
enum Tool {
    /// Why something is not measured.
    struct Missing: Error {
        let reason: String
    }

    /// - Parameter package: Debian's, which has it.
    /// - Throws: `Missing`.
    static func find(_ name: String, package: String, in folders: [String] = usual) throws -> String {
        let found = folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
        guard let found else {
            throw Missing(reason: "\(name) is not installed (apt-get install \(package)).")
        }
        return found
    }

    static let usual = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
}
