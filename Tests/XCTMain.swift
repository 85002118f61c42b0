import Testing

/// Without an entry point, SwiftPM looks for tests of XCTest in an index of the code, which is made for that alone.
@main enum Tests {
    static func main() async {
        await Testing.__swiftPMEntryPoint() as Never
    }
}
