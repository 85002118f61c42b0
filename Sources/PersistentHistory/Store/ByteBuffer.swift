internal import Glibc

/// Bytes that are written one behind the other.
///
/// The memory has one owner, so that nothing but the room is checked on each append: an array also asks whether it
/// is shared, which took half of the time of writing a call.
package struct ByteBuffer: ~Copyable {
    /// Nil until something is written.
    private var memory: UnsafeMutablePointer<UInt8>?
    private var capacity = 0
    private let leastCapacity: Int
    package private(set) var count = 0

    package init(reservingCapacity capacity: Int = 0) { leastCapacity = max(capacity, 512) }

    deinit { memory?.deallocate() }

    /// A copy of what was written.
    package var array: [UInt8] { withBytes { Array($0) } }

    /// A copy of what was written, which must be UTF-8.
    package var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }

    package func withBytes<T, Failure>(_ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> T)
        throws(Failure) -> T
    {
        try body(UnsafeBufferPointer(start: memory, count: count))
    }

    /// Where the next bytes go, which are no more than this.
    @inline(__always) private mutating func room(for length: Int) -> UnsafeMutablePointer<UInt8> {
        if let memory, length <= capacity - count { return memory + count }
        return grow(by: length)
    }

    @inline(__always) package mutating func append(_ byte: UInt8) {
        room(for: 1).pointee = byte
        count += 1
    }

    @inline(__always) package mutating func append(_ text: StaticString) {
        append(text.utf8Start, text.utf8CodeUnitCount)
    }

    /// `"name":`, after a comma where one is due.
    @inline(__always) package mutating func append(name: StaticString, comma: Bool) {
        let length = name.utf8CodeUnitCount
        var pointer = room(for: length + 4)
        if comma {
            pointer.pointee = UInt8(ascii: ",")
            pointer += 1
        }
        pointer.pointee = UInt8(ascii: "\"")
        memcpy(pointer + 1, name.utf8Start, length)
        pointer[length + 1] = UInt8(ascii: "\"")
        pointer[length + 2] = UInt8(ascii: ":")
        count += length + (comma ? 4 : 3)
    }

    @inline(__always) package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        if let base = bytes.baseAddress { append(base, bytes.count) }
    }

    package mutating func append(_ bytes: [UInt8]) { bytes.withUnsafeBufferPointer { append($0) } }

    package mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { append($0) }
    }

    @inline(__always) private mutating func append(_ bytes: UnsafePointer<UInt8>, _ length: Int) {
        memcpy(room(for: length), bytes, length)
        count += length
    }

    /// In decimal digits.
    package mutating func append(decimal value: Int64) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// In decimal digits.
    package mutating func append(decimal value: UInt64) {
        let start = room(for: 20)
        // From the last digit on, and then to the front.
        var pointer = start + 20
        var rest = value
        repeat {
            pointer -= 1
            let quotient = rest / 10
            pointer.pointee = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest &- quotient &* 10)
            rest = quotient
        } while rest > 0
        let length = start + 20 - pointer
        memmove(start, pointer, length)
        count += length
    }

    /// Forgets the beginning.
    package mutating func removeFirst(_ length: Int) {
        precondition(0...count ~= length)
        guard let memory else { return }
        memmove(memory, memory + length, count - length)
        count -= length
    }

    /// Forgets what was written. The memory is kept for the next time unless that was unusually much.
    package mutating func removeAll() {
        count = 0
        guard capacity > Self.mostKept else { return }
        memory?.deallocate()
        (memory, capacity) = (nil, 0)
    }

    private static let mostKept = 1 << 20

    @inline(never) private mutating func grow(by length: Int) -> UnsafeMutablePointer<UInt8> {
        let wanted = max(capacity * 2, count + length, leastCapacity)
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: wanted)
        if let memory {
            memcpy(larger, memory, count)
            memory.deallocate()
        }
        (memory, capacity) = (larger, wanted)
        return larger + count
    }
}
