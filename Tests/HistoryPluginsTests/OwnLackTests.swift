import FoundationEssentials
import Glibc
import TestSupport
import Testing

@testable import HistoryBase
@testable import HistoryPlugins
@testable import PersistentHistory

/// What the daemon itself lacks is not the plugin's failure.
@Suite(.timeLimit(.minutes(60))) struct OwnLackTests {
    @Test("No more processes run at a time than there are descriptors for; the others wait, and all are called")
    func turns() async throws {
        let scripts = try Scripts()
        // For three processes.
        let budget = ProcessBudget(DescriptorBudget { 2 * 2 * 3 * ProcessBudget.descriptors })
        let command = try scripts.sh(
            """
            cd "$(dirname "$0")"; cat >/dev/null; touch running-$$; ls | grep -c running- >> counts; sleep 0.05; rm running-$$
            """)
        let plugin = OneshotPlugin(oneshot(command).plugin, logger: Journal().logger, budget: budget)
        let failures = await withTaskGroup(of: ObserverOutcome.self) { group in
            for number in 1...20 { group.addTask { await plugin.observe([Calls.observe(Int64(number))]) } }
            return await group.reduce(0) { $0 + ($1.succeeded == 1 ? 0 : 1) }
        }
        #expect(failures == 0)
        let counts = try scripts.contents(of: "counts").split(separator: "\n").compactMap { Int($0) }
        #expect(counts.count == 20 && counts.allSatisfy { $0 <= 3 }, "\(counts)")
        #expect(budget.running == 0)
    }

    @Test("A call that is cancelled while it waits leaves its turn to others")
    func cancelled() async {
        // Nothing is left for processes: one runs at a time.
        let budget = ProcessBudget(DescriptorBudget { 0 })
        #expect(await budget.begin())
        let waiting = Task { await budget.begin() }
        waiting.cancel()
        #expect(await !waiting.value)
        async let next = budget.begin()
        budget.end()
        #expect(await next)
        budget.end()
        #expect(budget.running == 0)
    }

    @Test("A lack of descriptors is told apart from a program that cannot be started")
    func reasons() {
        for number in [EMFILE, ENFILE, ENOMEM, EAGAIN] {
            #expect(SystemError(call: "pipe2", number: number).isOwnLack)
        }
        for number in [ENOENT, EACCES, ENOEXEC, E2BIG] {
            #expect(!SystemError(call: "exec", number: number).isOwnLack)
        }
    }
}
