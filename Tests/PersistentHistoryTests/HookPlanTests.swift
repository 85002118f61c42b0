import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What calls a batch makes, and how a batch goes through the merge hooks: without any I/O.
@Suite struct HookPlanTests {
    private static let store = StoreID.sample()
    private static let person = Entity(shape: 1, name: "person", columns: [], key: .column("id"), preserved: [])
    private static let item = Entity(shape: 2, name: "item", columns: [], key: .column("id"), preserved: [])

    private func change(_ entity: Entity, _ operation: ChangeOperation, _ id: Int64) -> HistoryChange {
        HistoryChange(
            entity: entity, operation: operation, objectID: ObjectID(columns: ["id"], values: [.integer(id)]))
    }

    private func transaction(_ number: Int64, _ changes: [HistoryChange]) -> HistoryTransaction {
        HistoryTransaction(
            token: HistoryToken(store: Self.store, number: number), author: nil, context: nil, processID: nil,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: changes)
    }

    private func observer(
        _ name: String, entity: String? = nil,
        _ operations: Set<ChangeOperation> = Set(ChangeOperation.allCases)
    ) -> Hook {
        Hook(
            id: UUID(), name: name, kind: .observer, entity: entity, operations: operations, endpoint: Nothing()
        )
    }

    private func calls(_ plan: DeliveryPlan) -> [String] {
        plan.runs.flatMap(\.calls).map { call in
            let ids = call.changes.map { "\($0.objectID.values)" }.joined(separator: " ")
            let part = call.part.map { " part \($0.index)\($0.isLast ? " last" : "")" } ?? ""
            return
                "\(call.transaction.token.number) \(call.header.hook) \(call.changes[call.changes.startIndex].entity.name) \(ids)\(part)"
                .replacing("[HistoryBase.HistoryValue.integer(", with: "").replacing(")]", with: "")
        }
    }

    private func deliveries(_ plan: DeliveryPlan) -> [String] {
        plan.runs.flatMap(\.calls).map(\.header.delivery)
    }

    @Test func oneCallForEachTransactionEntityAndOperationInOrder() {
        let batch = [
            transaction(
                3,
                [
                    change(Self.item, .insert, 1), change(Self.person, .insert, 2),
                    change(Self.item, .insert, 3), change(Self.item, .update, 1),
                ]),
            transaction(4, [change(Self.person, .delete, 2)]),
        ]
        let plan = DeliveryPlan(
            batch,
            hooks: [observer("a"), observer("b", entity: "person"), observer("c", entity: "item", [.update])],
            store: "s", consumer: "C")
        #expect(
            calls(plan) == [
                "3 a item 1 3", "3 a person 2", "3 b person 2", "3 a item 1", "3 c item 1", "4 a person 2",
                "4 b person 2",
            ])
        #expect(
            deliveries(plan) == [
                "\(Self.store):3/C/a/0", "\(Self.store):3/C/a/1", "\(Self.store):3/C/b/1",
                "\(Self.store):3/C/a/2", "\(Self.store):3/C/c/2", "\(Self.store):4/C/a/0",
                "\(Self.store):4/C/b/0",
            ])
    }

    @Test func whatIsDoneIsNotPlannedAgain() {
        let batch = [transaction(3, [change(Self.item, .insert, 1), change(Self.person, .insert, 2)])]
        let plan = DeliveryPlan(
            batch, hooks: [observer("a")], store: "s", consumer: "C", done: ["\(Self.store):3/C/a/0"])
        #expect(calls(plan) == ["3 a person 2"])
    }

    @Test func largeGroupsComeInParts() {
        let batch = [transaction(9, (1...5).map { change(Self.item, .insert, $0) })]
        let plan = DeliveryPlan(batch, hooks: [observer("a")], store: "s", consumer: "C", maximumObjects: 2)
        #expect(calls(plan) == ["9 a item 1 2 part 0", "9 a item 3 4 part 1", "9 a item 5 part 2 last"])
        #expect(
            deliveries(plan) == [
                "\(Self.store):9/C/a/0.0", "\(Self.store):9/C/a/0.1", "\(Self.store):9/C/a/0.2",
            ])
        let whole = DeliveryPlan(batch, hooks: [observer("a")], store: "s", consumer: "C", maximumObjects: 5)
        #expect(calls(whole) == ["9 a item 1 2 3 4 5"])
    }

    @Test func mergeHooksAreCalledInOrderUntilOneFinishes() {
        let hooks = ["a", "b", "c"].map { Hook(id: UUID(), name: $0, kind: .merge, endpoint: Nothing()) }
        let batch = [
            transaction(1, [change(Self.item, .insert, 1)]), transaction(2, [change(Self.item, .insert, 2)]),
        ]
        var merge = PendingMerge(batch, after: 0, end: 2)
        #expect(merge.next(hooks)?.name == "a")
        merge.answer(hooks[0], MergeResult(.goOn, rejecting: [batch[0].token]))
        #expect(merge.next(hooks)?.name == "b")
        #expect(merge.remaining == [batch[1]])
        #expect(merge.toMerge == [batch[1]])
        merge.answer(hooks[1], MergeResult(.finish))
        #expect(merge.next(hooks) == nil)
        #expect(merge.toMerge == [])
    }

    @Test("A merge that was left goes on with what its hooks have decided, and another one does not")
    func resumed() {
        let hooks = ["a", "b"].map { Hook(id: UUID(), name: $0, kind: .merge, endpoint: Nothing()) }
        let batch = (1...3).map { transaction($0, [change(Self.item, .insert, $0)]) }
        var left = PendingMerge(batch, after: 0, end: 3)
        left.answer(hooks[0], MergeResult(.goOn, rejecting: [batch[0].token]))
        var same = PendingMerge(batch, after: 0, end: 3)
        same.resume(left)
        #expect(same.next(hooks)?.name == "b")
        #expect(same.toMerge == Array(batch[1...]))
        var shorter = PendingMerge(Array(batch[..<2]), after: 0, end: 2)
        shorter.resume(left)
        #expect(shorter.next(hooks)?.name == "a")
        left.answer(hooks[1], MergeResult(.finish))
        same.resume(left)
        #expect(same.next(hooks) == nil)
        #expect(same.toMerge.isEmpty)
    }

    @Test func nothingIsLeftToMergeWhenAllIsRejected() {
        let hooks = ["a", "b"].map { Hook(id: UUID(), name: $0, kind: .merge, endpoint: Nothing()) }
        let batch = [transaction(1, [change(Self.item, .insert, 1)])]
        var merge = PendingMerge(batch, after: 0, end: 1)
        merge.answer(hooks[0], MergeResult(.goOn, rejecting: [batch[0].token]))
        #expect(merge.next(hooks) == nil)
        #expect(merge.toMerge == [])
    }

    @Test func hooksStandInTheOrderOfRegistrationAndBefore() async {
        let registry = HookRegistry()
        for (name, before) in [("a", nil), ("b", nil), ("c", "b"), ("d", "nobody")] as [(String, String?)] {
            registry.register(
                Hook(id: UUID(), name: name, kind: .merge, before: before, endpoint: Nothing()))
        }
        let set = registry.hooks(store: "s", consumer: "C")
        #expect(set.mergers.map(\.name) == ["a", "c", "b", "d"])
        #expect(registry.remove(id: set.mergers[1].id))
        #expect(!registry.remove(id: set.mergers[1].id))
        #expect(registry.hooks(store: "s", consumer: "C").mergers.map(\.name) == ["a", "b", "d"])
    }
}

private final class Nothing: HookEndpoint {
    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome { ObserverOutcome(succeeded: calls.count) }
    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
}
