import Foundation
import TestSupport

/// The programs that these tests need: those that the build made, and the system's.
enum Products {
    static var historyd: String { BuiltProducts.historyd }
    static var historyctl: String { BuiltProducts.historyctl }

    static let python = "/usr/bin/python3"
    static let shell = "/usr/bin/sqlite3"

    /// What the tests here cannot do without: other processes, in other languages.
    static let areThere = [historyd, historyctl, python, shell, "/usr/bin/cc"].allSatisfy(
        FileManager.default.isExecutableFile)
    static let missing = "needs the built historyd and historyctl, python3, sqlite3 and cc"
}
