package import GRDB
import GRDBSQLite

/// A database value of another type, range or length than expected.
///
/// Others can write to stores and replicas. Each part that opens a file decides what such a value means
/// there: a damaged store, a damaged replica, an unusable state.
package struct UnexpectedValue: Error, Equatable {
    /// What was found and what was expected; never the value itself, which may be long or secret.
    package let message: String

    /// - Parameters:
    ///   - what: What holds the value: "the store's id".
    ///   - expected: "a UUID".
    init(_ what: String, expected: String, found: DatabaseValue) {
        self.init(what, expected: expected, found: HistoryValue(found))
    }

    private init(_ what: String, expected: String, found: HistoryValue) {
        let found =
            switch found {
            case .null: "missing"
            case .integer(let number): "the integer \(number)"
            case .real: "a real"
            case .text, .invalidText: "a text of \(found.byteCount) bytes"
            case .blob: "a blob of \(found.byteCount) bytes"
            }
        message = "\(what) is \(found), not \(expected)"
    }

    /// - Parameter row: A statement positioned on a row.
    init(_ what: String, expected: String, found row: OpaquePointer, _ column: Int32) {
        self.init(what, expected: expected, found: HistoryValue(row, column))
    }

    package init(_ message: String) { self.message = message }
}

/// Reads values that others can write.
///
/// GRDB's subscripts trap on a value of another type, or on null.
extension Row {
    package func integer(_ column: String, in range: ClosedRange<Int64> = .min ... .max) throws -> Int64 {
        let value: DatabaseValue = self[column]
        guard case .int64(let number) = value.storage, range.contains(number) else {
            throw UnexpectedValue(
                "\"\(column)\"", expected: "an integer from \(range.lowerBound) to \(range.upperBound)",
                found: value)
        }
        return number
    }

    func optionalInteger(_ column: String, in range: ClosedRange<Int64> = .min ... .max) throws -> Int64? {
        let value: DatabaseValue = self[column]
        return value.isNull ? nil : try integer(column, in: range)
    }

    package func text(_ column: String, atMost limit: Int = 1 << 20) throws -> String {
        let value: DatabaseValue = self[column]
        guard case .string(let text) = value.storage, text.utf8.count <= limit else {
            throw UnexpectedValue(
                "\"\(column)\"", expected: "a text of at most \(limit) bytes", found: value)
        }
        return text
    }

    func optionalText(_ column: String, atMost limit: Int = 1 << 20) throws -> String? {
        let value: DatabaseValue = self[column]
        return value.isNull ? nil : try text(column, atMost: limit)
    }

    /// 0 or 1.
    package func flag(_ column: String) throws -> Bool { try integer(column, in: 0...1) == 1 }
}

extension HistoryValue {
    package init(_ value: DatabaseValue) {
        self =
            switch value.storage {
            case .null: .null
            case .int64(let integer): .integer(integer)
            case .double(let real): .real(real)
            case .string(let text): .text(text)
            case .blob(let data): .blob(Array(data))
            }
    }
}
