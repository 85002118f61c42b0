import Testing

@testable import PersistentHistory

@Suite(.timeLimit(.minutes(60))) struct PassControlTests {
    @Test func nothingBeginsWhileAnybodyHolds() async {
        let control = PassControl()
        let stop = OneShotEvent()
        control.hold(by: .operatorOrder)
        control.hold(by: .reload)
        let entered = Locked(false)
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                #expect(await control.enter(stop))
                entered.withLock { $0 = true }
                control.leave()
            }
            control.release(by: .reload)
            await Task.yield()
            #expect(!entered.withLock { $0 }, "one does not release what another holds")
            #expect(control.isHeld(by: .operatorOrder))
            control.release(by: .operatorOrder)
        }
        #expect(entered.withLock { $0 })
    }

    @Test func aHoldIsFeltWhenTheLastBatchHasEnded() async {
        let control = PassControl()
        let stop = OneShotEvent()
        #expect(await control.enter(stop))
        #expect(await control.enter(stop))
        control.hold(by: .operatorOrder)
        let left = Locked(0)
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await control.quiet()
                #expect(left.withLock { $0 } == 2)
            }
            for _ in 0..<2 {
                await Task.yield()
                left.withLock { $0 += 1 }
                control.leave()
            }
        }
        await control.quiet()
    }

    @Test func aStopEndsTheWait() async {
        let control = PassControl()
        let stop = OneShotEvent()
        control.hold(by: .operatorOrder)
        await withTaskGroup(of: Bool.self) { group in
            group.addTask { await control.enter(stop) }
            stop.signal()
            #expect(await group.next() == false)
        }
    }

    /// The consumers' owner is told, on the loop, that it may go on.
    @Test func theOwnerIsToldWhenTheLastHoldIsReleased() async {
        let control = PassControl()
        let (told, tell) = AsyncStream.makeStream(of: String.self)
        control.setOwner(.init(released: { tell.yield("released") }, tryNow: { tell.yield("try now") }))
        #expect(control.tryEnter())
        control.leave()
        control.hold(by: .operatorOrder)
        control.hold(by: .reload)
        #expect(!control.tryEnter())
        control.release(by: .reload)
        control.tryNow()
        control.release(by: .operatorOrder)
        #expect(control.tryEnter())
        var order: [String] = []
        for await what in told {
            order.append(what)
            if order.count == 2 { break }
        }
        #expect(order == ["try now", "released"])
    }
}
