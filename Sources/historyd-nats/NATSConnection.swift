import CNats
import Glibc
import HistoryConfiguration
import HistoryNATS
import PersistentHistory

/// A connection to a NATS server. It never reconnects: therefore no old message arrives late, and no subscription
/// outlives its requests.
///
/// libnats has its own threads, which only call `WorkerSignal` here.
final class NATSConnection: StreamConnection {
    /// Without spinning: its locks are held long enough that spinning would waste processor time.
    private static let opened = nats_Open(0)

    /// libnats locks it: another thread may close it, which ends this thread's wait.
    nonisolated(unsafe) private let pointer: OpaquePointer
    /// Kept as long as the connection: libnats 3.4.1 uses a subscription after freeing it if messages arrive
    /// while it is destroyed.
    private let subscriptions = Locked<[NATSSubscription]>([])
    private let used = UsedMessages()
    let receiving = Locked(LinkPace())
    let sending = Locked(LinkPace())

    /// - Parameter wakeUp: Signaled when the connection is lost.
    /// - Throws: `NATSError`.
    init(_ configuration: NATSConfiguration, name: String, wakeUp: WorkerSignal) throws {
        try Self.check("start libnats", Self.opened)
        let options = try Self.options(configuration, name, wakeUp)
        do {
            pointer = try ConnectionAttempt.connect(options, wakeUp)
        } catch let error as NATSError {
            throw error.explained(configuration)
        }
    }

    /// As publisher and follower connect.
    static let connect: Connect = { try NATSConnection($0, name: "historyd-nats", wakeUp: $1) }

    private static func options(
        _ configuration: NATSConfiguration, _ name: String, _ wakeUp: WorkerSignal
    ) throws -> OpaquePointer {
        var made: OpaquePointer?
        try check("make options", natsOptions_Create(&made))
        guard let options = made else { throw NATSError(call: "make options", reason: "there are none") }
        do {
            try set(options, configuration, name, wakeUp)
            return options
        } catch {
            natsOptions_Destroy(options)
            throw error
        }
    }

    private static func set(
        _ options: OpaquePointer, _ configuration: NATSConfiguration, _ name: String, _ wakeUp: WorkerSignal
    ) throws {
        let servers = configuration.servers.map { strdup($0) }
        defer { for server in servers { free(server) } }
        var texts = servers.map { UnsafePointer($0) }
        try check("set servers", natsOptions_SetServers(options, &texts, Int32(texts.count)))
        try check("set the name", natsOptions_SetName(options, name))
        try check("set reconnecting", natsOptions_SetAllowReconnect(options, false))
        try check("set sending", natsOptions_SetSendAsap(options, true))
        try check("set the time limit", natsOptions_SetTimeout(options, 5000))
        // Publisher and follower check their streams more often, which reveals a silent server. An answer to a
        // ping waits behind the data on a slow link.
        try check("set pings", natsOptions_SetPingInterval(options, 30_000))
        try check("set pings", natsOptions_SetMaxPingsOut(options, 1))
        try check(
            "set the callback",
            natsOptions_SetClosedCB(
                options,
                { _, wakeUp in
                    guard let wakeUp else { return }
                    Unmanaged<WorkerSignal>.fromOpaque(wakeUp).takeUnretainedValue().signal(.disconnected)
                }, Unmanaged.passUnretained(wakeUp).toOpaque()))
        try secure(options, configuration)
        try check("set the limit on writing", natsOptions_SetWriteDeadline(options, 10_000))
    }

    private static func secure(_ options: OpaquePointer?, _ configuration: NATSConfiguration) throws {
        if let file = configuration.credentials {
            try check(
                "read the credentials \"\(file)\"",
                natsOptions_SetUserCredentialsFromFiles(options, file, nil))
        }
        if let file = configuration.nkeySeed {
            try check(
                "use the nkey's seed \"\(file)\"",
                natsOptions_SetNKeyFromSeed(options, configuration.nkey, file))
        }
        guard configuration.tls != nil || configuration.servers.contains(where: { $0.hasPrefix("tls://") })
        else {
            return
        }
        try check("use TLS", natsOptions_SetSecure(options, true))
        if let authority = configuration.tls?.authority {
            try check(
                "load the certificates \"\(authority)\"",
                natsOptions_LoadCATrustedCertificates(options, authority))
        }
        if let certificate = configuration.tls?.certificate {
            try check(
                "load the certificate \"\(certificate)\"",
                natsOptions_LoadCertificatesChain(options, certificate, configuration.tls?.key))
        }
    }

    deinit {
        used.giveBack()
        natsConnection_Destroy(pointer)
    }

    /// Closes the connection: pending calls throw an error. May be called from any thread.
    func close() { natsConnection_Close(pointer) }

    /// The maximum size of a message, including its headers.
    var maximumPayload: Int { Int(natsConnection_GetMaxPayload(pointer)) }

    // MARK: Messages

    func publish(
        _ subject: String, reply: String?, fields: [(name: String, value: String)], _ body: [UInt8]
    ) throws {
        var message: OpaquePointer?
        try body.withUnsafeBufferPointer { body in
            try body.withMemoryRebound(to: CChar.self) { body in
                try Self.check(
                    "make a message",
                    natsMsg_Create(&message, subject, reply, body.baseAddress, Int32(body.count)))
            }
        }
        defer { if let message { used.add(message) } }
        for field in fields {
            try Self.check("set a header", natsMsgHeader_Set(message, field.name, field.value))
        }
        try Self.check("publish on \(subject)", natsConnection_PublishMsg(pointer, message))
    }

    func request(_ subject: String, _ body: [UInt8], timeout: Duration) throws -> [UInt8] {
        var reply: OpaquePointer?
        try body.withUnsafeBytes { body in
            do {
                try Self.check(
                    "request \(subject)",
                    natsConnection_Request(
                        &reply, pointer, subject, body.baseAddress, Int32(body.count), timeout.limit))
            } catch let error as NATSError where error.isTimeout {
                throw NATSError(call: error.call, reason: error.reason + refusal, isTimeout: true)
            }
        }
        guard let reply else { throw NATSError(call: "request \(subject)", reason: "no answer") }
        return NATSMessage(reply, used).withBody { Array($0) }
    }

    /// The server does not answer a forbidden request; it reports the refusal separately.
    var refusal: String {
        var text: UnsafePointer<CChar>?
        guard natsConnection_GetLastError(pointer, &text) != NATS_OK, let text, text.pointee != 0 else {
            return ""
        }
        return " (the server says: \(String(cString: text)))"
    }

    /// Subscribes to a subject; messages are read with `NATSSubscription.next`.
    func subscribe(_ subject: String) throws -> any StreamSubscription {
        var subscription: OpaquePointer?
        try Self.check(
            "subscribe to \(subject)", natsConnection_SubscribeSync(&subscription, pointer, subject))
        guard let subscription else {
            throw NATSError(call: "subscribe to \(subject)", reason: "no subscription")
        }
        let made = NATSSubscription(subscription, subject, used)
        subscriptions.withLock { $0.append(made) }
        return made
    }

    func inbox() throws -> String {
        var inbox: UnsafeMutablePointer<natsInbox>?
        try Self.check("make an inbox", natsInbox_Create(&inbox))
        defer { natsInbox_Destroy(inbox) }
        return inbox.map { String(cString: $0) } ?? ""
    }

    static func check(_ call: String, _ status: natsStatus) throws(NATSError) {
        guard status != NATS_OK else { return }
        var last = NATS_OK
        let detail = nats_GetLastError(&last).map { String(cString: $0) } ?? ""
        let text = String(cString: natsStatus_GetText(status))
        if status == NATS_NO_RESPONDERS {
            throw NATSError(
                call: call,
                reason:
                    "no JetStream answers here: put \"jetstream {}\" into the server's configuration, and start it again; at a leaf node, name the domain that has the streams (\"jetStreamDomain\")"
            )
        }
        throw NATSError(
            call: call, reason: detail.isEmpty || last != status ? text : "\(text) (\(detail))",
            isTimeout: status == NATS_TIMEOUT)
    }
}

extension NATSError {
    /// Adds the remedy where libnats' message does not name it.
    fileprivate func explained(_ configuration: NATSConfiguration) -> NATSError {
        let lacksCertificate =
            configuration.tls?.certificate == nil && reason.contains("Expected 'PONG', got ''")
        guard lacksCertificate else { return self }
        return NATSError(
            call: call,
            reason: """
                the server closed the connection after the TLS handshake: it may want a client's certificate, which \
                "certificate" and "key" in "tls" name
                """)
    }
}

extension Duration {
    /// For libnats, to which 0 means something else.
    var limit: Int64 { max(1, milliseconds) }
}
