internal import CPlatform
internal import Glibc

/// A process inherits the ignored and the blocked signals of its parent (execve(2)).
package enum InheritedSignals {
    /// Sets what all programs rely on. Call it before there are other threads. If the parent ignores
    /// SIGHUP or SIGINT, as nohup(1) and shells do, that stays.
    ///
    /// - Parameter endsAtBrokenPipe: Whether SIGPIPE ends the program. If not, the write fails.
    package static func reset(endsAtBrokenPipe: Bool) {
        signal(SIGPIPE, endsAtBrokenPipe ? SIG_DFL : SIG_IGN)
        // If SIGCHLD is ignored, the kernel keeps no exit status and sends no signal (wait(2)): a failed
        // hook would count as successful, and the end of a command would go unnoticed.
        signal(SIGCHLD, SIG_DFL)
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
    }
}
