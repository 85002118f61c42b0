import HistoryControl
import Logging
import PersistentHistory
import ServiceLifecycle

/// Serves the control socket.
struct ControlServer: Service {
    let listener: ControlListener
    let logger: Logger
    /// Opened when it accepts.
    let gate: OneShotEvent
    let handler: ControlHandler

    func run() async throws {
        defer { listener.remove() }
        let slots = ConnectionSlots()
        try await cancelWhenGracefulShutdown {
            try await HTTPServer([listener.descriptor], logger: logger).run {
                gate.signal()
            } serve: { channel, connection in
                try await ControlConnection(channel: channel, handler: handler, slots: slots).serve(connection)
            }
        }
    }
}
