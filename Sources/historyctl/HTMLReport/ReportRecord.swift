import Foundation
import HistoryConfiguration
import PersistentHistory

/// The provenance of a report: its file, and how it was made.
struct ReportRecord {
    let json: [UInt8]

    /// - Parameter description: The output of `describe` for the store, as JSON.
    init(_ store: String, isOfCoreData: Bool, description: [UInt8], isReversed: Bool, command: [String]) {
        let path = URL(filePath: store).standardizedFileURL.path
        var json = JSONBytes()
        json.object { json in
            json.member("file", path)
            json.member("kind", isOfCoreData ? "written by Core Data or SwiftData" : "recorded by historyd")
            json.member("sha256", Self.sha256(path))
            if FileManager.default.fileExists(atPath: path + "-wal") {
                json.member("walSHA256", Self.sha256(path + "-wal"))
            }
            json.member("isReversed", isReversed)
            json.member("made", HistoryTimestamp.now.description)
            json.member("version", HistoryVersion.current)
            json.member("command", (["historyctl"] + command).map(ShellText.quote).joined(separator: " "))
            json.name("description")
            json.raw(description)
        }
        self.json = json.bytes.array
    }

    /// Computed by the system's sha256sum(1); nil if that fails.
    private static func sha256(_ path: String) -> String? {
        let program = Process()
        program.executableURL = URL(filePath: "/usr/bin/sha256sum")
        program.arguments = ["--zero", "--", path]
        let output = Pipe()
        (program.standardOutput, program.standardError) = (output, FileHandle.nullDevice)
        guard (try? program.run()) != nil, let data = try? output.fileHandleForReading.readToEnd() else {
            return nil
        }
        program.waitUntilExit()
        let text = String(decoding: data.prefix(64), as: UTF8.self)
        return program.terminationStatus == 0 && text.allSatisfy(\.isHexDigit) ? text : nil
    }
}
