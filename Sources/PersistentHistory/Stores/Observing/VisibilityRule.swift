/// When to look for a commit after its event, and when it is certain that there is nothing more to find.
///
/// The last write of a commit makes its event before other processes can see the commit, so a look may come too
/// early. The writer holds its lock over all of this: lock, write (event), publish, unlock. Hence the order: after
/// taking the signal, *ask* whether a writer is active, and only then *look*.
///
/// **A look after the answer "no" is final.** Let a commit's events all be in the signal taken at time *s* (an
/// event after *s* makes another signal). Its writer had the lock before its first event, so before *s*.
/// The question is later than *s*, and the lock is free: the writer has unlocked, so it has published. The look comes
/// later still and sees it.
///
/// **The other order loses commits**: look (nothing there), publish, unlock, ask ("no"), rest.
///
/// While a writer is active it is looked at once (it may have published already). A small commit has often ended by then,
/// and a delay takes longer than it says, because a timer has to wake the thread: so the question is asked once more
/// before the first one. Then it is looked again after delays that are an eighth of the time waited so far, from 30 µs
/// to 100 ms. So a commit is seen late by at most an eighth of its own duration, and a transaction that lasts for hours
/// costs ten looks a second. Something found begins this again: it was another commit.
///
/// **A lock may stand in the way of the look itself**, in a rollback journal's modes. A writer that commits without a
/// pause then releases its lock for microseconds at a time, and looks that are 100 ms apart may miss that for half a
/// minute. Such a writer's files change just before and after: a signal that comes during the delay begins the delays
/// again. It does so only once they are longer than 1 ms, so that a large transaction, whose files change all the time,
/// costs some thousand looks a second at most.
///
/// **A look may stand in the way of a writer**, in a rollback journal's modes: a commit fails with `SQLITE_BUSY` while
/// somebody reads, unless the writer waits for that. So nothing is looked at while such a writer is active, until it has
/// been waited for `longestDelay`. A signal during a longer delay has the question asked at once, and counts as a
/// millisecond of waiting. What is left is a writer that begins and commits within one look.
///
/// A value without clock or files: feed it what happened, do what it says.
package struct VisibilityRule: Sendable, Hashable {
    /// What to do next, and what to report when it is done.
    package enum Step: Sendable, Hashable {
        /// Ask whether a writer is active; report by `asked(writerActive:)`.
        case ask
        /// Look for something new; report by `looked(foundNew:)`.
        case look
        /// Let time pass; report by `waited()`.
        case wait(Duration)
        /// Everything that the signal spoke of has been seen: wait for the next signal; report by `woke()`.
        case rest
    }

    private let firstDelay: Duration
    private let longestDelay: Duration
    private let share = 8
    /// A look that is due sooner is not worth a signal.
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
    /// - Returns: Nil where the delay goes on, and the signal is taken when everything else has been seen.
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

    /// - Parameter foundNew: Nil if a lock stood in the way. Its holder came after the question, and may
    /// leave without a sign; what the signal spoke of is still to be seen.
    package mutating func looked(foundNew: Bool?) -> Step {
        wasLockedOut = foundNew == nil
        guard writerWasActive || wasLockedOut else { return .rest }
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
