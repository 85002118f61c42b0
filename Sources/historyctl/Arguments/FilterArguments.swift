public import ArgumentParser
public import PersistentHistory

/// `--since` and `--until`.
enum DateArgument {
    static let help =
        "ISO 8601, such as 2026-01-07, 2026-01-07T10:30 or 2026-01-07T10:30:00.250+01:00; UTC without a zone."

    /// The first matching instant.
    static func since(_ text: String) throws -> HistoryTimestamp {
        guard let date = HistoryTimestamp(iso8601: text, roundingUp: true) else {
            throw ValidationError(problem)
        }
        return date
    }

    /// The last matching instant: a date without a time stands for its whole day.
    static func until(_ text: String) throws -> HistoryTimestamp {
        guard let date = HistoryTimestamp(iso8601: text) else { throw ValidationError(problem) }
        return text.utf8.count > 10 ? date : HistoryTimestamp(milliseconds: date.milliseconds + 86_399_999)
    }

    private static let problem = "The format of a date is \(help)"
}

/// `--after` and `--before`.
enum TokenArgument {
    static func token(_ text: String) throws -> HistoryToken {
        guard let token = HistoryToken(text) else {
            throw ValidationError(
                "A token has the form <store id>:<number>; `historyctl history --format json` prints it.")
        }
        return token
    }
}

/// `--object`.
enum ObjectArgument {
    static func url(_ text: String) throws -> ObjectIDURL {
        guard let url = ObjectIDURL(text) else {
            throw ValidationError(
                "An object is given by its objectIDURL; `historyctl history --format json` prints it.")
        }
        return url
    }
}

/// `--operation`: a conformance of a public type is public.
extension ChangeOperation: ExpressibleByArgument {}

/// For readers, or for programs.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case table, json
}

/// As `OutputFormat`, or for spreadsheets.
enum HistoryFormat: String {
    case table, json, csv
}

/// As `HistoryFormat`, or as a page.
enum HistoryOutput: String, ExpressibleByArgument, CaseIterable {
    case table, json, csv, html

    /// Nil for `html`.
    var lines: HistoryFormat? { HistoryFormat(rawValue: rawValue) }
}
