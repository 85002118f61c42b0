import Testing

/// See the other package's. `swift test` would run these tests twice.
@main enum Tests {
    static func main() async { await Testing.__swiftPMEntryPoint() as Never }
}
