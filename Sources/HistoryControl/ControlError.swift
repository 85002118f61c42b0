import FoundationEssentials

/// Why a request failed. Programs get it as `{"error": {…}}`.
package struct ControlError: Error, Codable, Sendable, Hashable, CustomStringConvertible {
    /// For programs. Codes may be added; existing ones stay.
    package enum Code: String, Codable, Sendable, CaseIterable {
        /// The request is malformed.
        case badRequest
        /// No such path.
        case unknownRequest
        /// The path exists, but not with this method.
        case wrongMethod
        /// The body is larger than any manifest.
        case tooLarge
        /// Only root and the daemon's own user may change anything.
        case notPermitted
        case unknownStore, unknownConsumer, unknownContext, unknownHook, unknownPlugin, unknownDeadLetter
        /// The configuration on disk is invalid: the old one stays in force.
        case reloadRefused
        /// The manifest is invalid: nothing was added.
        case manifestRefused
        /// Several match: the request must say which.
        case ambiguous
        case paused
        /// Another client is connected to the feed.
        case feedInUse
        /// The user, or all users together, have reached the limit of connections.
        case tooManyConnections
        /// The store is missing, or cannot be read at the moment.
        case storeNotOpen
        /// A file system is full or read-only.
        case noSpace
        case tokenInvalid, tokenForeign, tokenAhead, tokenExpired
        /// The feed has not sent the token to a client of this user since the daemon started.
        case tokenNotSent
        /// It did not happen within the timeout.
        case timedOut
        /// The retried call failed again.
        case hookFailed
        /// The daemon is stopping.
        case stopping
        /// The requested operation failed.
        case failed
    }

    package let code: Code
    /// What failed, for which object, why, and the remedy.
    package let message: String
    /// One problem per line, if there are several.
    package let problems: [String]?

    package init(_ code: Code, _ message: String, problems: [String]? = nil) {
        self.code = code
        self.message = message
        self.problems = problems
    }

    package var description: String { ([message] + (problems ?? [])).joined(separator: "\n") }

    /// The status code of the answer (RFC 9110, 15).
    package var httpStatus: Int {
        switch code {
        case .badRequest, .tokenInvalid, .ambiguous: 400
        case .notPermitted: 403
        case .unknownRequest, .unknownStore, .unknownConsumer, .unknownContext, .unknownHook, .unknownPlugin,
            .unknownDeadLetter:
            404
        case .wrongMethod: 405
        case .reloadRefused, .paused, .feedInUse, .tokenForeign, .tokenAhead, .tokenNotSent: 409
        case .tokenExpired: 410
        case .tooLarge: 413
        case .manifestRefused: 422
        case .failed: 500
        case .hookFailed: 502
        case .storeNotOpen, .stopping, .tooManyConnections: 503
        case .timedOut: 504
        case .noSpace: 507
        }
    }
}

/// The body of an error answer; also the last line of a stream that breaks off.
package struct ControlFailure: Codable, Sendable, Hashable {
    package let error: ControlError

    package init(_ error: ControlError) { self.error = error }

    /// The error in a line with which a stream breaks off.
    package static func error(in line: ArraySlice<UInt8>) throws -> ControlError? {
        guard line.starts(with: #"{"error":"#.utf8) else { return nil }
        return try ControlJSON.read(ControlFailure.self, from: Array(line)).error
    }
}

/// Encodes messages as JSON: on one line, with members sorted by name and without those that have no value.
package enum ControlJSON {
    package static func bytes(_ message: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(message)) + [UInt8(ascii: "\n")]
    }

    package static func read<Message: Decodable>(_ type: Message.Type, from bytes: [UInt8]) throws -> Message {
        try JSONDecoder().decode(type, from: Data(bytes))
    }
}
