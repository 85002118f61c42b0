import TestSupport
import Testing

/// What webhook.py makes of a server's answers, without a daemon.
@Suite(.timeLimit(.minutes(60))) struct WebhookTests {
    @Test("Retry-After is heeded, what is wrong is not sent again, and each body is signed")
    func answers() async throws {
        let printed = try await Command(
            Products.python,
            [Sources.path("Tests/Tools/Samples/webhook_answers.py"), Sources.path("config/plugins/webhook.py")]
        ).succeed()
        #expect(
            printed == """
                204 - {}
                500 - {}
                503 17 {"retryAfter": 17}
                429 5 {"retryAfter": 5}
                503 in two hours {"retryAfter": 7200}
                503 Fri, 31 De {"retryAfter": 0}
                503 soon {}
                503 -5 {}
                503 9999999999 {"retryAfter": 999999999}
                408 - {}
                425 - {}
                400 - {"permanent": true}
                404 17 {"permanent": true}
                410 - {"permanent": true}
                301 - {}
                application/cloudevents+json {"datacontenttype": "application/json", "id": "a4fd:7/MainApp/webhook/people/0", "source": "x-history://a4fd", "specversion": "1.0", "time": "2026-11-21T01:11:47.988Z", "type": "historyd.person.insert"}

                """)
    }
}
