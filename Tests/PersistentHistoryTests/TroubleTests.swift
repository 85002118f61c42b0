import GRDB
import Glibc
import Testing

@testable import PersistentHistory

/// What fails and is tried again: how it is counted, and what is made of an error.
@Suite struct TroubleTests {
    private static let error = HistoryError(.replicaUnwritable, "The disk is full.")

    @Test("An opening that succeeds does not end the trouble of a context that cannot be written")
    func openingIsNoProof() {
        var troubles = ContextTroubles()
        let now = ContinuousClock.now
        for attempt in 1...5 {
            #expect(troubles.fail("view", Self.error, at: .written, now: now) == attempt)
            #expect(troubles.succeed("view", at: .opened, now: now) == nil)
            #expect(!troubles.isEmpty)
        }
        #expect(troubles.lasting?.message == Self.error.message)
        #expect(troubles.succeed("view", at: .written, now: now) == 5)
        #expect(troubles.isEmpty && troubles.delay(at: now) == nil)
    }

    @Test("An opening that failed is mended by one that succeeds, but not where writing has failed since")
    func stages() {
        var troubles = ContextTroubles()
        let now = ContinuousClock.now
        #expect(troubles.fail("view", Self.error, at: .opened, now: now) == 1)
        #expect(troubles.succeed("view", at: .opened, now: now) == 1)
        #expect(troubles.fail("view", Self.error, at: .written, now: now) == 1)
        #expect(troubles.fail("view", Self.error, at: .opened, now: now) == 2)
        #expect(troubles.succeed("view", at: .opened, now: now) == nil)
        #expect(troubles.succeed("view", at: .written, now: now) == 2)
    }

    @Test("Pauses grow, also after a success that proves nothing, and an operator ends them")
    func pauses() {
        var troubles = ContextTroubles()
        let now = ContinuousClock.now
        for _ in 1...4 { _ = troubles.fail("view", Self.error, at: .written, now: now) }
        #expect(troubles.delay(at: now) == .milliseconds(400))
        #expect(troubles.isPaused("view", at: now) && !troubles.isPaused("view", at: now + .seconds(1)))
        _ = troubles.succeed("view", at: .opened, now: now + .seconds(1))
        #expect(troubles.delay(at: now + .seconds(1)) == .milliseconds(400))
        troubles.tryNow(now)
        #expect(!troubles.isPaused("view", at: now) && troubles.delay(at: now) == .zero)
    }

    @Test("Full, read-only and damaged are told apart, by SQLite's word and by the system's")
    func kinds() {
        #expect(StateTrouble(ResultCode.SQLITE_FULL) == .full)
        #expect(StateTrouble(ResultCode.SQLITE_READONLY_DBMOVED) == .readOnly)
        #expect(StateTrouble(ResultCode.SQLITE_NOTADB) == .damaged)
        #expect(StateTrouble(ResultCode.SQLITE_CORRUPT_INDEX) == .damaged)
        #expect(StateTrouble(ResultCode.SQLITE_CANTOPEN) == nil)
        #expect(StateTrouble(errno: ENOSPC) == .full && StateTrouble(errno: EDQUOT) == .full)
        #expect(StateTrouble(errno: EROFS) == .readOnly && StateTrouble(errno: EACCES) == .notPermitted)
        #expect(StateTrouble(errno: EIO) == .unusable)
        #expect(StateTrouble(folder: "/proc/does-not-exist") == nil)
    }
}
