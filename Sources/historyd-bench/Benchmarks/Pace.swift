/// How long a writer pauses between its commits.
enum Pace: CaseIterable {
    case none, short, medium, long

    /// In microseconds.
    var pauses: ClosedRange<UInt32> {
        switch self {
        case .none: 0...0
        case .short: 500...1000
        case .medium: 2000...8000
        case .long: 50_000...60_000
        }
    }

    var text: String {
        switch self {
        case .none: "no pause between commits"
        case .short: "0.5 to 1 ms between commits"
        case .medium: "2 to 8 ms between commits"
        case .long: "50 to 60 ms between commits"
        }
    }

    func commits(_ sizes: Sizes) -> Int {
        switch self {
        case .none: 5 * sizes.commits
        case .short: sizes.commits
        case .medium: max(sizes.commits / 2, 1)
        case .long: max(sizes.commits / 4, 1)
        }
    }

    /// The aim for the daemon's processor time for each commit, in microseconds.
    var processorAim: Aim? {
        switch self {
        case .none, .medium: nil
        case .short: .atMost(60)
        case .long: .atMost(150)
        }
    }

    /// The aim for the time until the plugin has a commit, independent of the baselines.
    func latencyAim(_ label: String) -> Aim? {
        guard self == .none else { return nil }
        return .atMost(label == "p50" ? 100 : 2000)
    }
}

/// Random numbers that are the same in each run (SplitMix64, https://prng.di.unimi.it/splitmix64.c), so that all
/// observers get the same pauses.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
