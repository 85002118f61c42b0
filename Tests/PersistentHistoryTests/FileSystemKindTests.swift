import TestSupport
import Testing

@testable import PersistentHistory

/// Which file systems report everything.
@Suite struct FileSystemKindTests {
    @Test func whatReportsEverythingIsNotPolled() throws {
        // ext2 to ext4, XFS, Btrfs, tmpfs, overlay, ZFS.
        for type: UInt32 in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1] {
            #expect(FileSystemKind(type: type) == nil)
        }
        #expect(FileSystemKind(type: 0x6573_5546)?.name == "FUSE")
        #expect(FileSystemKind(type: 0x6969)?.name == "NFS")
        // Types are numbers of 32 bits; some seem negative.
        #expect(FileSystemKind(type: UInt32(truncatingIfNeeded: -11_317_950))?.name == "SMB")
        #expect(FileSystemKind(of: "/nowhere/at/all") == nil)
    }
}
