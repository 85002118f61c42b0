import ArgumentParser

/// To read, or for programs.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case table, json
}

/// The same, or for spreadsheets.
enum HistoryFormat: String, ExpressibleByArgument, CaseIterable {
    case table, json, csv
}
