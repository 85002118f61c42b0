import Testing

/// What was waited for did not come.
struct WaitedTooLong: Error, CustomStringConvertible {
    let description: String
}

/// Waits until `look` gives a value: the one place where these tests let time pass to look again.
///
/// - Parameters:
///   - what: What is waited for, for the failure.
///   - limit: Far beyond what it takes on a busy machine: only a failure meets it.
///   - state: What there is instead, for the failure.
/// - Throws: `WaitedTooLong`, or what `look` throws.
func eventually<Value>(
    _ what: String, within limit: Duration = .seconds(150), state: () -> String = { "" },
    _ look: () async throws -> Value?
) async throws -> Value {
    let clock = ContinuousClock()
    let start = clock.now
    while true {
        let before = clock.now
        if let value = try await look() { return value }
        let (waited, took) = (clock.now - start, clock.now - before)
        guard waited < limit else {
            throw WaitedTooLong(description: "Waited \(limit) for \(what). \(state())")
        }
        // What takes long is looked for less often, and a look that starts a program leaves others time.
        let pause = min(max(waited / 16, .milliseconds(4)), .milliseconds(40))
        try await Task.sleep(for: max(pause, min(took * 3, .milliseconds(300))))
    }
}

/// Waits until something holds.
func eventually(
    _ what: String, within limit: Duration = .seconds(150), state: () -> String = { "" },
    holds look: () async throws -> Bool
) async throws {
    try await eventually(what, within: limit, state: state) { try await look() ? () : nil }
}

/// Lets a program be for a while, where what it does in a time is measured.
func observe(for period: Duration) async throws { try await Task.sleep(for: period) }

/// Lets a few through at a time: daemons by the dozen would measure the machine's patience.
actor Turnstile {
    static let shared = Turnstile(places: 6)

    private var places: Int
    private var queue: [CheckedContinuation<Void, Never>] = []

    init(places: Int) { self.places = places }

    func enter() async {
        if places > 0 {
            places -= 1
        } else {
            await withCheckedContinuation { queue.append($0) }
        }
    }

    func leave() {
        if queue.isEmpty {
            places += 1
        } else {
            queue.removeFirst().resume()
        }
    }
}
