import Glibc
import HistoryConfiguration
import PersistentHistory

/// Diagnoses why a plugin's process failed in the sandbox, from its exit status and its output, and names the
/// remedy.
///
/// Runtimes do not name the sandbox: V8 dies of a trap where it may not generate machine code.
enum SandboxAdvice {
    /// Signals that end a runtime where its memory cannot become executable.
    private static let fatalSignals: Set<Int32> = [SIGTRAP, SIGABRT, SIGILL, SIGSEGV]

    /// Messages of runtimes about a forbidden socket or an unreachable network.
    private static let ofNetwork = [
        "Address family not supported", "EAFNOSUPPORT", "Network is unreachable", "ENETUNREACH",
        "Temporary failure in name resolution", "EAI_AGAIN", "Could not resolve host",
    ]
    /// Messages of runtimes that may not generate code, where they do not simply crash.
    private static let ofMachineCode = [
        "SetPermissions", "mprotect", "PROT_EXEC", "executable memory", "CodeRange", "code cache",
    ]
    private static let ofPackage = "No module named 'historyd'"

    static func need(after end: ProcessEnd?, saying text: String) -> SandboxLimits.Need? {
        if ofNetwork.contains(where: { text.contains($0) }) { return .network }
        if case .signaled(let signal) = end, fatalSignals.contains(signal) { return .machineCode }
        return ofMachineCode.contains { text.contains($0) } ? .machineCode : nil
    }

    /// Sentences that follow the failure, with a leading space; empty if there is no advice.
    ///
    /// - Parameters:
    ///   - end: Nil while the process runs.
    ///   - text: What the process wrote.
    ///   - limits: The daemon's sandbox.
    static func text(
        after end: ProcessEnd?, saying text: String?, within limits: SandboxLimits = .current
    ) -> String {
        if let text, text.contains(ofPackage) {
            return
                " This Python has no package historyd: let the hook begin with #!/usr/bin/python3, or install the package for the hook's own Python with its pip."
        }
        let remedy = need(after: end, saying: text ?? "").flatMap { limits.remedy(for: $0) }
        return remedy.map { " \($0)" } ?? ""
    }
}
