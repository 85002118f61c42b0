import Testing

/// Looks in a daemon's log for what held up its main loop. Nothing on it may wait, whatever a test is about.
enum LoopStalls {
    /// Waiting is a mistake, however fast the machine is; a debug build computes slowly. A part of the program itself may
    /// have to come from a busy disk.
    static let mostWaiting = 200

    static func check(_ log: String, sourceLocation: SourceLocation = #_sourceLocation) {
        for line in log.split(separator: "\n") where line.contains("event=loopStalled") {
            // "… for 35 ms in File.swift:7 (3 ms of processor time, 1 ms without a processor, 31 ms of waiting)."
            guard let match = line.firstMatch(of: /([0-9]+) ms of waiting/), let waiting = Int(match.1) else {
                continue
            }
            if waiting > mostWaiting {
                Issue.record("The main loop waited: \(line)", sourceLocation: sourceLocation)
            }
        }
    }
}
