import HistoryNATS
import HistoryMirrors
import Testing

@Suite("What a server says about requests, and how much is requested")
struct PullTests {
    @Test("Only what is known to be fatal ends the session; what is unknown ends the request")
    func statuses() {
        let rows: [(String, String, PullStatus)] = [
            ("100", "Idle Heartbeat", .heartbeat), ("404", "No Messages", .timeout),
            ("408", "Request Timeout", .timeout), ("409", "Message Size Exceeds MaxBytes", .tooLarge),
            ("409", "Batch Completed", .ended("Batch Completed (409)")),
            ("409", "Leadership Change", .ended("Leadership Change (409)")),
            ("409", "A Word Of 2030", .ended("A Word Of 2030 (409)")),
            ("499", "", .ended("status 499")), ("", "", .ended("status ")),
            ("409", "Consumer Deleted", .fatal("Consumer Deleted (409)")),
            ("400", "Bad Request", .fatal("Bad Request (400)")), ("503", "", .fatal("status 503")),
        ]
        for (code, description, status) in rows {
            #expect(PullStatus(code: code, description: description) == status)
        }
    }

    @Test("A stored message is told from the server's word by its reply subject alone")
    func words() {
        #expect(!PullStatus.isWord(reply: "$JS.ACK.HISTORY_a.c.1.7.1.1700000000000000000.3"))
        #expect(!PullStatus.isWord(reply: "$JS.ACK.hub.ACCOUNT.HISTORY_a.c.1.7.1.1700000000000000000.3.x"))
        #expect(PullStatus.isWord(reply: "") && PullStatus.isWord(reply: "_INBOX.x.1"))
    }

    @Test("Requests that end at once are not made without end")
    func futile() {
        var requests = FutileRequests()
        for _ in 0..<5 {
            #expect(requests.ended() && requests.ended() && requests.ended())
            requests.progressed()
        }
        #expect(requests.ended() && requests.ended() && requests.ended() && !requests.ended())
    }

    @Test(
        "A link of any speed from 16 kB/s on is used, and nothing waits behind more than it carries in seconds")
    func pace() {
        for bytesPerSecond in [16_000.0, 64_000, 250_000, 3e6, 100e6, 1e9] {
            for start in [LinkPace.least, 8 << 20] {
                var pace = LinkPace(allowance: start)
                for _ in 0..<40 {
                    let seconds = Double(pace.allowance) / bytesPerSecond + 0.02
                    pace.carried(pace.allowance, in: .seconds(seconds))
                }
                let seconds = Double(pace.allowance) / bytesPerSecond
                #expect(pace.allowance >= LinkPace.least)
                #expect(seconds <= 5, "\(bytesPerSecond): \(seconds) s")
                #expect(seconds >= 0.4 || pace.allowance == 8 << 20)
            }
        }
    }

    @Test("Small messages that wait for their acknowledgements do not narrow a link")
    func smallMessages() {
        var pace = LinkPace(allowance: 1 << 20)
        for _ in 0..<100 { pace.carried(300, in: .milliseconds(20)) }
        #expect(pace.allowance == 1 << 20)
        pace.mustCarryMore()
        #expect(pace.allowance == 2 << 20)
    }
}

@Suite("What a look at a stream means")
struct SightTests {
    private static func state(_ last: UInt64, first: UInt64 = 1, created: String = "a") -> StreamState {
        StreamState(messages: last, first: first, last: last, created: created)
    }

    @Test("What was not delivered between two looks ends the session; a message on its way does not")
    func missing() {
        let now = ContinuousClock.now
        var sight = StreamSight(state: Self.state(5), seen: 5, at: now)
        #expect(sight.look(Self.state(5), at: now) == .asBefore)
        #expect(sight.look(Self.state(6), at: now) == .again)
        sight.seen = 6
        #expect(sight.look(Self.state(6), at: now) == .asBefore)
        #expect(sight.look(Self.state(7), at: now) == .again)
        // Another one came meanwhile, and the first of them is missing all the same.
        #expect(sight.look(Self.state(9), at: now) == .over("has message 7, which was not delivered"))
    }

    @Test("A stream that was made again or set back ends the session")
    func madeAgain() {
        let now = ContinuousClock.now
        let rows = [
            Self.state(5, created: "b"), Self.state(4), Self.state(0, first: 0), Self.state(9, created: "b"),
        ]
        for new in rows {
            var sight = StreamSight(state: Self.state(5), seen: 5, at: now)
            #expect(sight.look(new, at: now) == .over("was made again, or set back"))
        }
    }

    @Test("The content is compared now and then")
    func comparison() {
        let now = ContinuousClock.now
        var sight = StreamSight(state: Self.state(5), seen: 5, at: now)
        #expect(sight.look(Self.state(5), at: now + .seconds(239)) == .asBefore)
        #expect(sight.look(Self.state(5), at: now + .seconds(240)) == .compare)
        #expect(sight.look(Self.state(5), at: now + .seconds(241)) == .asBefore)
    }
}

@Suite("Snapshots that are continued, and when one is due")
struct SnapshotPlanTests {
    private static let names = StreamName("contacts")

    private static func header(
        _ kind: GroupHeader.Kind, _ number: Int64, part: Int = 0, after: Int64 = 0, epoch: Int64 = 5
    ) -> GroupHeader {
        GroupHeader(
            kind, store: "0e6c3f0e-6f43-4c1e-9d52-6f2c6a3f6a10", epoch: epoch,
            after: StreamPosition(number: after, fingerprint: nil, schema: "s"),
            through: StreamPosition(number: number, fingerprint: "f", schema: "s"), part: part, isLast: false)
    }

    @Test("A snapshot goes on behind the parts that the stream ends with, and only there")
    func resumption() {
        let wanted = Self.header(.snapshot, 40)
        let rows: [(GroupHeader?, UInt64, Int?)] = [
            (Self.header(.begin, 40), 99, 0), (Self.header(.snapshot, 40, part: 0), 100, 1),
            (Self.header(.snapshot, 40, part: 7), 107, 8), (Self.header(.snapshot, 40, part: 7), 108, nil),
            (Self.header(.snapshot, 41, part: 7), 107, nil),
            (Self.header(.snapshot, 40, part: 7, epoch: 6), 107, nil),
            (Self.header(.begin, 40), 107, nil), (Self.header(.head, 40), 107, nil), (nil, 107, nil),
            (nil, 0, nil),
            (Self.header(.snapshot, 40, part: 7), 3, nil),
        ]
        for (last, sequence, parts) in rows {
            #expect(
                SnapshotResumption.partsThere(of: wanted, from: 100, last: last, at: sequence) == parts)
        }
    }

    @Test("Parts of no snapshot that is kept are left over")
    func leftovers() {
        let subjects =
            [3, 70, 500].map { Self.names.snapshotPart($0) } + ["history_snapshot.contacts.part.x", "other"]
        #expect(
            SnapshotResumption.leftovers(among: subjects, Self.names, kept: [70, 900]) == [
                Self.names.snapshotPart(3), Self.names.snapshotPart(500),
            ])
    }

    @Test("A snapshot is due where the stream begins behind it")
    func beginning() throws {
        func isBehind(_ messages: [GroupHeader?], first: UInt64 = 10, through: Int64) -> Bool {
            var beginning = StreamBeginning()
            let last = first + UInt64(messages.count) - 1
            beginning.look(
                StreamState(messages: UInt64(messages.count), first: first, last: last, created: "a"), epoch: 5
            ) { messages[Int($0 - first)] }
            return beginning.isBehind(
                StreamPosition(number: through, fingerprint: nil, schema: "s"))
        }
        let group = Self.header(.group, 60, after: 50)
        #expect(isBehind([group], through: 49) && !isBehind([group], through: 50))
        #expect(isBehind([nil, nil, group], through: 49))
        // The first part of the group is gone.
        #expect(isBehind([Self.header(.group, 60, part: 1, after: 50)], through: 55))
        #expect(isBehind([Self.header(.begin, 60, after: 60)], through: 59))
        #expect(
            !isBehind([Self.header(.group, 60, after: 50, epoch: 4)], through: 1) && !isBehind([], through: 1))
    }
}

@Suite("Which failures are reported")
struct FailureReportsTests {
    @Test(
        "The same failure with other numbers is reported after pauses that grow, with the count of the others")
    func repeated() {
        var reports = FailureReports()
        let start = ContinuousClock.now
        var reported: [Int] = []
        var total = 0
        // Two publishers that fence each other off for an hour.
        for second in stride(from: 0, to: 3600, by: 2) {
            total += 1
            if let more = reports.take(
                "another publisher, with message \(second)", at: start + .seconds(second))
            {
                reported.append(more)
                #expect(reports.wasReported)
            } else {
                #expect(!reports.wasReported)
            }
        }
        #expect(reported.count <= 8 && reported.first == 0, "\(reported)")
        #expect(reported.reduce(reported.count, +) <= total)
        #expect(reports.take("something else", at: start + .seconds(1)) == 0)
    }
}

@Suite("How a stream is configured")
struct StreamSettingsTests {
    @Test("Streams that lose what followers need are named")
    func problems() {
        var settings = StreamSettings()
        #expect(settings.problem == nil)
        settings.mostPerSubject = 1
        #expect(settings.problem?.contains("max_msgs_per_subject") ?? false)
        settings.storage = "memory"
        #expect(settings.problem?.contains("memory") ?? false)
        for retention in ["interest", "workqueue"] {
            settings.retention = retention
            #expect(settings.problem?.contains(retention) ?? false)
        }
    }

    @Test("Limits that the configuration does not have are named")
    func differences() {
        var settings = StreamSettings()
        #expect(settings.difference(fromAge: nil, bytes: nil) == nil)
        (settings.maxAge, settings.maxBytes) = (60_000_000_000, 1 << 20)
        #expect(settings.difference(fromAge: .seconds(60), bytes: 1 << 20) == nil)
        #expect(
            settings.difference(fromAge: .seconds(61), bytes: 1 << 20)
                == "max_age is 60 s, and \"maxAge\" is 61 s")
        #expect(settings.difference(fromAge: nil, bytes: nil)?.contains("max_bytes is 1048576 bytes") ?? false)
    }
}
