/// Decides when to look for a commit after its event, and when nothing more can be found.
///
/// The last write of a commit makes its event before other processes can see the commit, so a look may
/// come too early. The writer holds its lock over all of this: lock, write (event), publish, unlock.
/// Hence the order: after taking the signal, *ask* whether a writer is active, and only then *look*.
///
/// **A look after the answer "no" is final.** Let all events of a commit be in the signal taken at time
/// *s* (an event after *s* makes another signal). Its writer took the lock before its first event, so
/// before *s*. The question comes after *s* and finds the lock free: the writer has unlocked, so it has
/// published. The look comes later still and sees the commit.
///
/// **The other order loses commits**: look (nothing there), publish, unlock, ask ("no"), rest.
///
/// While a writer is active, one look is made at once, because the commit may be visible already. A small
/// commit has often ended by then, and a delay takes longer than requested, because a timer has to wake
/// the thread. So the question is asked once more before the first delay. The following delays are an
/// eighth of the time waited so far, from 30 µs to 100 ms. So a commit is seen late by at most an eighth
/// of its own duration, and a transaction that lasts for hours takes ten looks a second. When something
/// is found, the delays start over: it was another commit.
///
/// **A lock may block the look itself**, in a rollback journal's modes. A writer that commits without a
/// pause releases its lock for microseconds at a time, and looks 100 ms apart may miss that for half a
/// minute. The files of such a writer change just before and after, so a signal during the delay restarts
/// the delays. It does so only once they are longer than 1 ms: a large transaction, whose files change
/// all the time, causes some thousand looks a second at most.
///
/// **A look may block a writer**, in a rollback journal's modes: a commit fails with `SQLITE_BUSY` while
/// another connection reads, unless the writer waits for that. So there is no look while such a writer is
/// active, until the wait has reached `longestDelay`. A signal during a longer delay asks the question at
/// once, and counts as a millisecond of waiting. This leaves a writer that begins and commits within one
/// look.
///
/// A value without clock or files: report to it what happened, and do what it returns.
package struct VisibilityRule: Sendable, Hashable {
    /// What to do next, and how to report it.
    package enum Step: Sendable, Hashable {
        /// Ask whether a writer is active; report with `asked(writerActive:)`.
        case ask
        /// Look for something new; report with `looked(foundNew:)`.
        case look
        /// Wait; report with `waited()`.
        case wait(Duration)
        /// Everything that the signal announced has been seen: wait for the next signal; report with
        /// `woke()`.
        case idle
    }

    private let firstDelay: Duration
    private let longestDelay: Duration
    private let share = 8
    /// A signal does not shorten a delay that is shorter than this.
    private static let shortDelay: Duration = .milliseconds(1)

    private var writerWasActive = false
    private var wasLockedOut = false
    private var sparesWriter = false
    private var hasJustLooked = false
    private var waitedSoFar = Duration.zero

    package init(firstDelay: Duration = .microseconds(30), longestDelay: Duration = .milliseconds(100)) {
        self.firstDelay = firstDelay
        self.longestDelay = max(firstDelay, longestDelay)
    }

    /// A signal was taken.
    package mutating func woke() -> Step {
        (waitedSoFar, wasLockedOut, hasJustLooked) = (.zero, false, false)
        return .ask
    }

    /// A signal came during a delay.
    ///
    /// - Returns: Nil if the delay goes on. The signal is then taken when everything else has been seen.
    package mutating func signalled() -> Step? {
        guard delay > Self.shortDelay else { return nil }
        if wasLockedOut { return woke() }
        guard sparesWriter else { return nil }
        waitedSoFar += Self.shortDelay
        return .ask
    }

    /// - Parameter disturbsWriter: Whether a look now may make the writer's commit fail.
    package mutating func asked(writerActive: Bool, disturbsWriter: Bool) -> Step {
        writerWasActive = writerActive
        defer { hasJustLooked = false }
        sparesWriter = writerActive && disturbsWriter && waitedSoFar < longestDelay
        if sparesWriter { return .wait(delay) }
        return hasJustLooked && writerActive ? .wait(delay) : .look
    }

    package mutating func asked(writerActive: Bool) -> Step {
        asked(writerActive: writerActive, disturbsWriter: false)
    }

    /// - Parameter foundNew: Nil if a lock blocked the look. Its holder came after the question and may
    ///   leave without a sign, so what the signal announced is still to be seen.
    package mutating func looked(foundNew: Bool?) -> Step {
        wasLockedOut = foundNew == nil
        guard writerWasActive || wasLockedOut else { return .idle }
        if foundNew == true { waitedSoFar = .zero }
        guard waitedSoFar == .zero, !wasLockedOut else { return .wait(delay) }
        hasJustLooked = true
        return .ask
    }

    package mutating func waited() -> Step {
        // Beyond this the delay no longer grows.
        waitedSoFar = min(waitedSoFar + delay, longestDelay * share)
        return .ask
    }

    private var delay: Duration {
        min(max(waitedSoFar / share, firstDelay), longestDelay)
    }
}
