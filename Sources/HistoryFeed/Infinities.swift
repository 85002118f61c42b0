/// The infinities of a line, which stand there as `9e999` and `-9e999`: decoders refuse numbers that they cannot hold.
enum Infinities {
    static let member = "infinite"
    private static let digits = Array("9e999".utf8)

    /// A line in which each of them is `{"infinite":1}` or `{"infinite":-1}`; strings stay as they are.
    static func replaced(in line: ArraySlice<UInt8>) -> [UInt8] {
        guard contains(line) else { return Array(line) }
        var result: [UInt8] = []
        var isInString = false
        var place = line.startIndex
        while place < line.endIndex {
            let byte = line[place]
            if isInString {
                // What is escaped ends no string.
                let end = min(place + (byte == UInt8(ascii: "\\") ? 2 : 1), line.endIndex)
                result += line[place..<end]
                if byte == UInt8(ascii: "\"") { isInString = false }
                place = end
            } else if line[place...].starts(with: digits) {
                let isNegative = result.last == UInt8(ascii: "-")
                if isNegative { result.removeLast() }
                result += Array("{\"\(member)\":\(isNegative ? -1 : 1)}".utf8)
                place += digits.count
            } else {
                if byte == UInt8(ascii: "\"") { isInString = true }
                result.append(byte)
                place += 1
            }
        }
        return result
    }

    private static func contains(_ line: ArraySlice<UInt8>) -> Bool {
        var place = line.startIndex
        while let nine = line[place...].firstIndex(of: digits[0]) {
            if line[nine...].starts(with: digits) { return true }
            place = nine + 1
        }
        return false
    }
}
