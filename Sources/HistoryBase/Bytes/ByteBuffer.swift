internal import Glibc

/// A buffer to which bytes are appended.
///
/// Its memory has one owner, so an append checks only the capacity. An array also checks whether it is
/// shared, which took half the time of writing a call.
@usableFromInline package struct ByteBuffer: ~Copyable {
    /// Nil until something is written.
    @usableFromInline var memory: UnsafeMutablePointer<UInt8>?
    @usableFromInline var capacity = 0
    private let leastCapacity: Int
    /// Where the bytes begin.
    @usableFromInline var start = 0
    @usableFromInline var end = 0

    package init(reservingCapacity capacity: Int = 0) { leastCapacity = max(capacity, 512) }

    deinit { memory?.deallocate() }

    @inlinable package var count: Int { end - start }

    /// A copy of the bytes.
    package var array: [UInt8] { withBytes { Array($0) } }

    /// A copy of the bytes as text. They must be UTF-8.
    package var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }

    @inlinable package func withBytes<T, Failure>(_ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> T)
        throws(Failure) -> T
    {
        try body(UnsafeBufferPointer(start: memory.map { $0 + start }, count: count))
    }

    /// Where to write the next bytes, up to this many.
    @inlinable @inline(__always) mutating func room(for length: Int) -> UnsafeMutablePointer<UInt8> {
        if let memory, length <= capacity - end { return memory + end }
        return grow(by: length)
    }

    @inlinable @inline(__always) package mutating func append(_ byte: UInt8) {
        room(for: 1).pointee = byte
        end += 1
    }

    @inlinable @inline(__always) package mutating func append(_ text: StaticString) {
        append(text.utf8Start, text.utf8CodeUnitCount)
    }

    /// Appends `"name":`, after a comma if required.
    @inlinable @inline(__always) package mutating func append(name: StaticString, comma: Bool) {
        let length = name.utf8CodeUnitCount
        var pointer = room(for: length + 4)
        if comma {
            pointer.pointee = UInt8(ascii: ",")
            pointer += 1
        }
        pointer.pointee = UInt8(ascii: "\"")
        (pointer + 1).update(from: name.utf8Start, count: length)
        pointer[length + 1] = UInt8(ascii: "\"")
        pointer[length + 2] = UInt8(ascii: ":")
        end += length + (comma ? 4 : 3)
    }

    @inlinable @inline(__always) package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        if let base = bytes.baseAddress { append(base, bytes.count) }
    }

    @inlinable package mutating func append(_ bytes: [UInt8]) { bytes.withUnsafeBufferPointer { append($0) } }

    @inlinable @inline(__always) package mutating func append(_ store: StoreID) {
        store.withBytes { append($0) }
    }

    @inlinable package mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { append($0) }
    }

    @inlinable @inline(__always) mutating func append(_ bytes: UnsafePointer<UInt8>, _ length: Int) {
        room(for: length).update(from: bytes, count: length)
        end += length
    }

    /// Appends decimal digits.
    package mutating func append(decimal value: Int64) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// Appends decimal digits.
    package mutating func append(decimal value: UInt64) {
        if value < 10 { return append(UInt8(ascii: "0") + UInt8(value)) }
        let length = Self.digits(of: value)
        var pointer = room(for: length) + length
        var rest = value
        // Two digits at a time, from the last one.
        while rest >= 100 {
            let quotient = rest / 100
            pointer -= 2
            memcpy(pointer, Self.pairs.utf8Start + Int(rest &- quotient &* 100) * 2, 2)
            rest = quotient
        }
        if rest < 10 {
            (pointer - 1).pointee = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest)
        } else {
            memcpy(pointer - 2, Self.pairs.utf8Start + Int(rest) * 2, 2)
        }
        end += length
    }

    private static let pairs: StaticString = """
        00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354\
        555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899
        """

    private static func digits(of value: UInt64) -> Int {
        var (rest, count) = (value, 1)
        while rest >= 10_000 {
            rest /= 10_000
            count += 4
        }
        return count + (rest >= 1000 ? 3 : rest >= 100 ? 2 : rest >= 10 ? 1 : 0)
    }

    /// Drops the beginning. Nothing is moved, because much may follow.
    package mutating func removeFirst(_ length: Int) {
        precondition(0...count ~= length)
        start += length
        if start == end { removeAll() }
    }

    /// Drops everything. The memory is kept unless it is unusually large.
    package mutating func removeAll() {
        (start, end) = (0, 0)
        guard capacity > Self.mostKept else { return }
        memory?.deallocate()
        (memory, capacity) = (nil, 0)
    }

    private static let mostKept = 1 << 20

    @usableFromInline @inline(never) mutating func grow(by length: Int) -> UnsafeMutablePointer<UInt8> {
        if let memory, start >= count, length <= capacity - count {
            // At least half is free, so each byte is moved at most once.
            memcpy(memory, memory + start, count)
            (start, end) = (0, count)
            return memory + end
        }
        let wanted = max(capacity * 2, count + length, leastCapacity)
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: wanted)
        if let memory {
            memcpy(larger, memory + start, count)
            memory.deallocate()
        }
        (memory, capacity, start, end) = (larger, wanted, 0, count)
        return larger + end
    }
}
