import FoundationEssentials

/// Why a request was not carried out: what programs get as `{"error": {…}}`.
package struct ControlError: Error, Codable, Sendable, Hashable, CustomStringConvertible {
    /// For programs. New ones may come; these stay.
    package enum Code: String, Codable, Sendable, CaseIterable {
        /// The request cannot be understood.
        case badRequest
        /// No such path.
        case unknownRequest
        /// The path is right, the method is not.
        case wrongMethod
        /// The body is longer than any manifest.
        case tooLarge
        /// Only root and the daemon's own user may change anything.
        case notPermitted
        case unknownStore, unknownConsumer, unknownContext, unknownHook, unknownPlugin, unknownDeadLetter
        /// The configuration on disk is wrong: the old one stays in force.
        case reloadRefused
        /// The manifest is wrong: nothing was added.
        case manifestRefused
        /// Several are meant; say which.
        case ambiguous
        case paused
        /// Another program is connected to the feed.
        case feedInUse
        /// The user, or all users together, have as many connections as they may have.
        case tooManyConnections
        /// The store is not there, or cannot be read, for now.
        case storeNotOpen
        /// A file system is full, or may not be written.
        case noSpace
        case tokenInvalid, tokenForeign, tokenAhead, tokenExpired
        /// The feed has not sent the token to a program of this user since the daemon's start.
        case tokenNotSent
        /// It did not come to pass in the time given.
        case timedOut
        /// The hook that was called again failed again.
        case hookFailed
        /// The daemon ends.
        case stopping
        /// What was asked for failed.
        case failed
    }

    package let code: Code
    /// What, which, why, and what to do.
    package let message: String
    /// A line each, where there is more than one thing to say.
    package let problems: [String]?

    package init(_ code: Code, _ message: String, problems: [String]? = nil) {
        self.code = code
        self.message = message
        self.problems = problems
    }

    package var description: String { ([message] + (problems ?? [])).joined(separator: "\n") }

    /// The status of the answer (RFC 9110, 15).
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

/// The body of an answer that is an error; also the last line of a stream that breaks off.
package struct ControlFailure: Codable, Sendable, Hashable {
    package let error: ControlError

    package init(_ error: ControlError) { self.error = error }

    /// The error that a line is, where a stream breaks off with it.
    package static func error(in line: ArraySlice<UInt8>) throws -> ControlError? {
        guard line.starts(with: #"{"error":"#.utf8) else { return nil }
        return try ControlJSON.read(ControlFailure.self, from: Array(line)).error
    }
}

/// Messages as JSON: one line, members in the order of their names, those without a value left out.
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
