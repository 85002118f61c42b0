import Glibc

enum StandardInput {
    /// All of it.
    static func text() throws(StreamError) -> String {
        var text: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(STDIN_FILENO, &block, block.count)
            if count == 0 { return String(decoding: text, as: UTF8.self) }
            if count > 0 {
                text += block[..<count]
            } else if errno != EINTR {
                throw StreamError("Standard input cannot be read", errno)
            }
        }
    }
}
