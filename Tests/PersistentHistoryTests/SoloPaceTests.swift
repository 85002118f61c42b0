import Testing

@testable import PersistentHistory

/// When a solo transaction is tried, and beside whom: pure values.
@Suite struct SoloPaceTests {
    @Test("An attempt that waits is rare: others are kept from beginning for a small part of the time")
    func share() {
        for chance in [0, 0.5, 0.999] {
            var pace = SoloPace()
            var (waited, paused) = (Duration.zero, Duration.zero)
            for _ in 0..<1000 {
                let wait = pace.wait
                let pause = pace.refused(chance: chance)
                #expect(wait <= SoloPace.longestWait)
                #expect(pause >= wait * SoloPace.restraint / 2)
                #expect(pause <= .seconds(2))
                waited += wait
                paused += pause
            }
            #expect(waited * 10 <= paused)
        }
    }

    @Test("The first attempts only look, and after a success so do the next, where that was enough")
    func looks() {
        var pace = SoloPace()
        for _ in 0..<SoloPace.looks {
            #expect(pace.wait == .zero)
            _ = pace.refused(chance: 0)
        }
        #expect(pace.wait > .zero)
        pace.entered()
        #expect(pace.wait == .zero)
        for _ in 0..<100 { pace.entered() }
        #expect(pace == SoloPace())
    }

    @Test("Only a connection that sees an outdated state, and has done so for long, stays")
    func staying() {
        var staying = StayingReaders()
        let start = ContinuousClock.now
        func look(_ held: UInt32, outdated: UInt32, mark: UInt32 = 7, after time: Duration) -> UInt32 {
            let marks = Array(repeating: mark, count: OtherReaders.slotCount)
            staying.look(OtherReaders(held: held, outdated: outdated, marks: marks), now: start + time)
            return staying.marks
        }
        #expect(look(0b00110, outdated: 0b00010, after: .zero) == 0)
        #expect(look(0b00110, outdated: 0b00010, after: .milliseconds(999)) == 0)
        #expect(look(0b00110, outdated: 0b00110, after: .seconds(1)) == 0b00010)
        // Another one took its mark.
        #expect(look(0b00110, outdated: 0b00110, mark: 9, after: .seconds(2)) == 0)
        #expect(look(0b00110, outdated: 0b00110, mark: 9, after: .seconds(3)) == 0b00110)
        // It was gone in between.
        #expect(look(0b00100, outdated: 0b00100, mark: 9, after: .seconds(4)) == 0b00100)
        #expect(look(0b00110, outdated: 0b00110, mark: 9, after: .seconds(5)) == 0b00100)
    }

    @Test("A step at risk is taken after a long wait, while others write, and for a ten-thousandth of the time")
    func risk() {
        let start = ContinuousClock.now
        var risk = RiskBudget()
        #expect(!risk.isDue(version: 1, now: start + .seconds(3600)))
        risk.refused(version: 1, now: start)
        #expect(!risk.isDue(version: 2, now: start + RiskBudget.timeout - .milliseconds(1)))
        #expect(!risk.isDue(version: 1, now: start + .seconds(3600)))
        #expect(risk.isDue(version: 2, now: start + RiskBudget.timeout))

        var (now, steps) = (start, 0)
        let duration = Duration.milliseconds(20)
        for second in 0..<3600 {
            now = start + .seconds(second)
            risk.refused(version: Int64(second), now: now)
            guard risk.isDue(version: Int64(second) + 1, now: now) else { continue }
            risk.taken(after: duration, now: now)
            steps += 1
        }
        #expect(steps > 0)
        #expect(duration * steps * RiskBudget.share <= .seconds(3600) + duration * RiskBudget.share)
    }

    @Test("Who holds the read marks is read from the system's list of locks")
    func holders() {
        let locks = """
            1: POSIX  ADVISORY  READ 101 08:02:77 124 124
            2: POSIX  ADVISORY  WRITE 102 08:02:77 120 120
            3: POSIX  ADVISORY  READ 103 08:02:78 124 124
            4: OFDLCK ADVISORY  READ -1 08:02:77 124 124
            5: POSIX  ADVISORY  WRITE 105 00:1f:77 120 EOF
            5: -> POSIX  ADVISORY  WRITE 106 00:1f:77 123 127
            nonsense
            """
        #expect(LockHolders.processes(in: locks, inode: 77, bytes: 123...127) == [101, 105, 106])
        #expect(LockHolders.processes(in: "", inode: 77, bytes: 123...127).isEmpty)
    }
}
