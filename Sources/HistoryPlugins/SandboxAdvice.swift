import Glibc
import HistoryConfiguration
import PersistentHistory

/// What is the matter where a process of a plugin failed, as far as its end and its words tell, and what mends it.
///
/// Runtimes do not name the sandbox: V8 dies of a trap where it may not generate machine code.
enum SandboxAdvice {
    /// Signals by which a runtime ends itself, or is ended, where its memory does not become executable.
    private static let fatalSignals: Set<Int32> = [SIGTRAP, SIGABRT, SIGILL, SIGSEGV]

    /// How runtimes say that a socket is not allowed, or that nothing can be reached.
    private static let ofNetwork = [
        "Address family not supported", "EAFNOSUPPORT", "Network is unreachable", "ENETUNREACH",
        "Temporary failure in name resolution", "EAI_AGAIN", "Could not resolve host",
    ]
    /// How they say that they may not generate code, where they do not just die.
    private static let ofMachineCode = [
        "SetPermissions", "mprotect", "PROT_EXEC", "executable memory", "CodeRange", "code cache",
    ]
    private static let ofPackage = "No module named 'historyd'"

    static func need(after end: ProcessEnd?, saying text: String) -> SandboxLimits.Need? {
        if ofNetwork.contains(where: { text.contains($0) }) { return .network }
        if case .signaled(let signal) = end, fatalSignals.contains(signal) { return .machineCode }
        return ofMachineCode.contains { text.contains($0) } ? .machineCode : nil
    }

    /// Sentences to follow the failure, with a space before them; empty where nothing is known.
    ///
    /// - Parameter end: Nil where the process lives on.
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
