package import HistoryConfiguration
package import PersistentHistory

/// What publisher and follower need of a connection to a server. One thread uses it, and blocks in it.
///
/// It never reconnects: when it is lost, calls fail and its owner opens another one.
package protocol StreamConnection: AnyObject, Sendable {
    /// The maximum size of a message, including its headers.
    var maximumPayload: Int { get }
    /// What the server said about a request that it does not answer; empty if it said nothing.
    var refusal: String { get }
    /// What the link carries, as measured so far.
    var receiving: Locked<LinkPace> { get }
    var sending: Locked<LinkPace> { get }

    /// Sends a message, and returns before it has arrived.
    func publish(
        _ subject: String, reply: String?, fields: [(name: String, value: String)], _ body: [UInt8]) throws
    /// Sends a request and waits for its answer.
    func request(_ subject: String, _ body: [UInt8], timeout: Duration) throws -> [UInt8]
    /// A unique subject.
    func inbox() throws -> String
    func subscribe(_ subject: String) throws -> any StreamSubscription
    /// Pending calls throw an error. May be called from any thread.
    func close()
}

/// Opens a connection. The signal is given when the connection is lost.
package typealias Connect =
    @Sendable (NATSConfiguration, WorkerSignal) throws -> any StreamConnection

/// Buffers messages for the thread that reads them.
package protocol StreamSubscription: AnyObject, Sendable {
    var subject: String { get }
    /// Whether a message is waiting.
    var hasMessages: Bool { get }

    /// Blocks until there is a message.
    ///
    /// - Throws: `NATSError`, with `isTimeout` if none arrived in time.
    func next(timeout: Duration) throws -> any StreamMessage
}

/// A received message.
package protocol StreamMessage: AnyObject {
    var subject: String { get }
    var reply: String { get }
    /// The size of the body.
    var count: Int { get }

    func header(_ name: String) -> String?
    /// Passes the body to a closure, which must not keep it.
    func withBody<T>(_ read: (UnsafeRawBufferPointer) throws -> T) rethrows -> T
}

extension StreamMessage {
    var body: [UInt8] { withBody { Array($0) } }
}

/// An error that the connection or the server reported for a call.
package struct NATSError: Error, CustomStringConvertible {
    package let call: String
    package let reason: String
    package var isTimeout: Bool

    package init(call: String, reason: String, isTimeout: Bool = false) {
        (self.call, self.reason, self.isTimeout) = (call, reason, isTimeout)
    }

    package var description: String { "\(call): \(reason)" }
}
