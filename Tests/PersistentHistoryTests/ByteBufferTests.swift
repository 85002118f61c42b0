import TestSupport
import Testing

@testable import PersistentHistory

@Suite struct ByteBufferTests {
    @Test(arguments: [0, 9, 10, 99, 100, 12_345, Int64.max, -1, -10, Int64.min])
    func writesDecimalsAsSwiftDoes(_ value: Int64) {
        var bytes = ByteBuffer()
        bytes.append(decimal: value)
        bytes.append(",")
        bytes.append(decimal: value.magnitude)
        #expect(bytes.text == "\(value),\(value.magnitude)")
    }

    @Test func writesTheLargestNumber() {
        var bytes = ByteBuffer()
        bytes.append(decimal: UInt64.max)
        #expect(bytes.text == "18446744073709551615")
    }

    /// Whatever is appended and removed, it holds what an array would.
    @Test(arguments: [UInt64](1...20)) func holdsWhatAnArrayHolds(_ seed: UInt64) {
        var random = SplitMix(state: seed)
        var bytes = ByteBuffer(reservingCapacity: Int.random(in: 0...700, using: &random))
        var model: [UInt8] = []
        for _ in 0..<400 {
            switch Int.random(in: 0..<8, using: &random) {
            case 0:
                let byte = UInt8.random(in: 0...255, using: &random)
                bytes.append(byte)
                model.append(byte)
            case 1, 2:
                let piece = (0..<Int.random(in: 0...900, using: &random)).map { UInt8(truncatingIfNeeded: $0) }
                bytes.append(piece)
                model += piece
            case 3:
                let text = String(repeating: "é", count: Int.random(in: 0...20, using: &random))
                bytes.append(text)
                model += Array(text.utf8)
            case 4:
                let hasComma = Bool.random(using: &random)
                bytes.append(name: "name", comma: hasComma)
                model += Array((hasComma ? #","name":"# : #""name":"#).utf8)
            case 5:
                let number =
                    UInt64.random(in: 0...UInt64.max, using: &random)
                    >> UInt64.random(in: 0..<64, using: &random)
                bytes.append(decimal: number)
                model += Array("\(number)".utf8)
            case 6:
                let count = Int.random(in: 0...model.count, using: &random)
                bytes.removeFirst(count)
                model.removeFirst(count)
            default:
                guard Int.random(in: 0..<20, using: &random) == 0 else { continue }
                bytes.removeAll()
                model = []
            }
            #expect(bytes.count == model.count)
        }
        #expect(bytes.array == model, "seed \(seed)")
    }
}
