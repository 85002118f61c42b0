import ArgumentParser

/// To read, or for programs.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case table, json
}
