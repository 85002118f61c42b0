internal import Glibc

/// What the sandbox of the daemon's unit denies it and its child processes; determined by trying.
package struct SandboxLimits: Sendable, Equatable {
    /// What a program may need that the unit denies unless a drop-in allows it.
    package enum Need: Sendable, Hashable, CaseIterable {
        /// Generating machine code, as runtimes do that compile while they run.
        case machineCode
        case network
    }

    /// How to open the sandbox, as sentences, for each need that it denies.
    private let remedies: [Need: String]

    /// The limits of this process. The first access may wait for the user databases.
    package static let current = SandboxLimits(
        forbidding: Need.allCases.filter { need in
            switch need {
            case .machineCode: forbidsMachineCode
            case .network: forbidsNetwork
            }
        }, unit: .current)

    init(forbidding needs: [Need], unit: DaemonUnit?) {
        let user = Accounts.name(ofUser: geteuid())
        remedies = Dictionary(
            uniqueKeysWithValues: needs.map {
                ($0, RemedyPlan([.forbidden($0)], user: user, unit: unit).text)
            })
    }

    package init(forbidding needs: Need...) { self.init(forbidding: needs, unit: .current) }

    /// Nil if the sandbox allows it.
    package func remedy(for need: Need) -> String? { remedies[need] }

    /// `MemoryDenyWriteExecute=`.
    private static var forbidsMachineCode: Bool {
        let size = Int(getpagesize())
        guard let page = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            page != MAP_FAILED
        else { return false }
        defer { munmap(page, size) }
        return mprotect(page, size, PROT_READ | PROT_EXEC) != 0
    }

    /// `RestrictAddressFamilies=`.
    private static var forbidsNetwork: Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if descriptor >= 0 { close(descriptor) }
        return descriptor < 0 && (errno == EAFNOSUPPORT || errno == EPERM)
    }
}
