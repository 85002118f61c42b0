/// Access control lists as the kernel keeps them, in the extended attributes `system.posix_acl_access` and
/// `system.posix_acl_default` (`linux/posix_acl_xattr.h`): a version, then entries of tag, permissions and id,
/// all little-endian.
extension AccessList {
    private enum Tag {
        static let owner: UInt16 = 0x01
        static let user: UInt16 = 0x02
        static let ownGroup: UInt16 = 0x04
        static let group: UInt16 = 0x08
        static let mask: UInt16 = 0x10
        static let others: UInt16 = 0x20
    }

    private static let version: UInt32 = 2
    private static let entrySize = 8
    private static let noID = UInt32.max

    /// - Returns: Nil if the bytes hold no more than a mode does, or are no list.
    init?(_ bytes: UnsafeRawBufferPointer) {
        self.init()
        guard bytes.count >= 4, bytes.loadUnaligned(as: UInt32.self).littleEndian == Self.version else {
            return nil
        }
        var isMore = false
        for start in stride(from: 4, through: bytes.count - Self.entrySize, by: Self.entrySize) {
            let tag = bytes.loadUnaligned(fromByteOffset: start, as: UInt16.self).littleEndian
            let digit = bytes.loadUnaligned(fromByteOffset: start + 2, as: UInt16.self).littleEndian
            let id = bytes.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self).littleEndian
            let permissions = Permissions(digit: UInt32(digit))
            switch tag {
            case Tag.user: users[id] = permissions
            case Tag.group: groups[id] = permissions
            case Tag.ownGroup: ownGroup = permissions
            case Tag.mask: isMore = true
            default: break
            }
        }
        guard isMore else { return nil }
    }

    /// The list of a file with this mode.
    func bytes(mode: UInt32) -> [UInt8] {
        var bytes: [UInt8] = []
        func append(_ value: some FixedWidthInteger) {
            withUnsafeBytes(of: value.littleEndian) { bytes += $0 }
        }
        func append(_ tag: UInt16, _ digit: UInt32, _ id: UInt32 = Self.noID) {
            append(tag)
            append(UInt16(digit & 7))
            append(id)
        }
        append(Self.version)
        append(Tag.owner, mode >> 6)
        // By id, as the kernel wants them.
        for (id, permissions) in users.sorted(by: { $0.key < $1.key }) {
            append(Tag.user, UInt32(permissions.rawValue), id)
        }
        append(Tag.ownGroup, UInt32(ownGroup.rawValue))
        for (id, permissions) in groups.sorted(by: { $0.key < $1.key }) {
            append(Tag.group, UInt32(permissions.rawValue), id)
        }
        append(Tag.mask, mode >> 3)
        append(Tag.others, mode)
        return bytes
    }
}
