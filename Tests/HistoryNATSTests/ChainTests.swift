import HistoryNATS
import Testing

@Suite("The chain of messages")
struct ChainTests {
    @Test("The first message is conditional on the sequence alone, each other on the one before it")
    func chain() {
        var chain = MessageChain(stream: "HISTORY_x", session: "s", after: 7)
        let fence = Dictionary(uniqueKeysWithValues: chain.next().map { ($0.name, $0.value) })
        #expect(
            fence == [
                "Nats-Msg-Id": "s/0", "Nats-Expected-Stream": "HISTORY_x", "Nats-Expected-Last-Sequence": "7",
            ])
        let next = Dictionary(uniqueKeysWithValues: chain.next().map { ($0.name, $0.value) })
        #expect(next["Nats-Expected-Last-Sequence"] == "8")
        #expect(next["Nats-Expected-Last-Msg-Id"] == "s/0")
        #expect(next["Nats-Msg-Id"] == "s/1")
        #expect(chain.lastSequence == 9)
    }
}
