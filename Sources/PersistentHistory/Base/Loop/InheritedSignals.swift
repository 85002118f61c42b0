internal import CPlatform
internal import Glibc

/// A process starts with the signals ignored and blocked that its parent ignores and blocks (execve(2)).
package enum InheritedSignals {
    /// Sets what all programs rely on; to be called before there are other threads. That the parent ignores SIGHUP or
    /// SIGINT, as nohup(1) and shells do, is its wish, and stays.
    ///
    /// - Parameter endsAtBrokenPipe: Whether SIGPIPE ends the program; if not, to write is an error.
    package static func reset(endsAtBrokenPipe: Bool) {
        signal(SIGPIPE, endsAtBrokenPipe ? SIG_DFL : SIG_IGN)
        // Where the ends of children are ignored, the kernel keeps no exit status and sends no signal (wait(2)): a hook
        // that failed would pass for one that succeeded, and the end of a command would not be noticed.
        signal(SIGCHLD, SIG_DFL)
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
    }
}
