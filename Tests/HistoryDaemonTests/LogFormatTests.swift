import Foundation
import HistoryConfiguration
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

@Suite struct LogFormatTests {
    @Test func aLineIsAnObject() throws {
        let line = LogLine(
            level: .warning, message: "Two\nlines \"quoted\" \u{1b}",
            metadata: ["store": "a b", "event": .string(MessageCode.ready.rawValue), "level": "mine"],
            format: .json)
        #expect(
            line.bytes.filter { $0 == UInt8(ascii: "\n") }.count == 1 && line.bytes.last == UInt8(ascii: "\n"))
        var object = try #require(
            try JSONSerialization.jsonObject(with: Data(line.bytes)) as? [String: String])
        let time = object.removeValue(forKey: "time") ?? ""
        #expect(time.wholeMatch(of: #/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/#) != nil)
        #expect(
            object == [
                "level": "warning", "message": "Two\nlines \"quoted\" \u{1b}", "store": "a b", "event": "ready",
            ])
    }

    @Test func everyTextIsOneLine() throws {
        var random = Seed(UInt64.random(in: 0 ... .max))
        for _ in 0..<500 {
            var text = String.UnicodeScalarView()
            for _ in 0..<20 {
                if let scalar = Unicode.Scalar(UInt32.random(in: 0...0x2100, using: &random)) {
                    text.append(scalar)
                }
            }
            let line = LogLine(
                level: .info, message: String(text), metadata: ["k": .string(String(text))], format: .json)
            #expect(!line.bytes.dropLast().contains(UInt8(ascii: "\n")), "\(random)")
            let object = try JSONSerialization.jsonObject(with: Data(line.bytes)) as? [String: String]
            #expect(object?["message"]?.hasSameBytes(as: String(text)) == true, "\(random)")
            #expect(object?["k"]?.hasSameBytes(as: String(text)) == true, "\(random)")
        }
    }
}
