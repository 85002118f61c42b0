import Testing

/// Without an entry point, SwiftPM looks for tests of XCTest in an index of the code, which is made for that alone.
@main enum Tests {
    static func main() async {
        // `swift test` starts it once for the tests of each library.
        let arguments = CommandLine.arguments
        if arguments.lastIndex(of: "--testing-library").map({ arguments[$0...].contains("xctest") }) == true {
            return
        }
        await Testing.__swiftPMEntryPoint() as Never
    }
}
