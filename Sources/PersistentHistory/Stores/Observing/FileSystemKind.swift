internal import CPlatform
internal import Glibc

/// A kind of file system of which inotify(7) does not report every write: another machine makes some, or a program that
/// reaches the same files by another way, such as the folder behind a FUSE mount.
///
/// Its own writes prove nothing: the kernel reports what is written through the same mount.
package struct FileSystemKind: Sendable, Equatable {
    package let name: String

    /// How often such a store is looked at, where its configuration does not say.
    package static let interval: Duration = .seconds(1)

    /// The types of statfs(2), by `linux/magic.h` and the file systems' own sources.
    private static let names: [UInt32: String] = [
        0x6573_5546: "FUSE", 0x6969: "NFS", 0xFF53_4D42: "SMB", 0xFE53_4D42: "SMB", 0x517B: "SMB",
        0x0102_1997: "9P", 0x00C3_6400: "Ceph", 0x5346_414F: "AFS", 0x6B41_4653: "AFS", 0x7375_7245: "Coda",
        0x0BD0_0BD0: "Lustre", 0x0116_1970: "GFS2", 0x7461_636F: "OCFS2", 0x786F_4256: "VirtualBox",
        0xBACB_ACBC: "VMware",
    ]

    /// Nil for a type that reports everything, as far as is known.
    init?(type: UInt32) {
        guard let name = Self.names[type] else { return nil }
        self.name = name
    }

    /// That of a store that need not be there. May wait for the disk, or for another machine.
    ///
    /// - Returns: Nil where everything is reported, or where nothing can be seen.
    package init?(of store: String) {
        var status = statfs()
        guard statfs(PathNames.parent(of: StorePath.real(store)), &status) == 0 else { return nil }
        self.init(type: UInt32(truncatingIfNeeded: Int(status.f_type)))
    }

    /// What an operator should know of a store there.
    package var note: String {
        "The store lies on a file system (\(name)) that does not report what is written to it elsewhere: it is looked at each second as well. \"poll\" of the store sets another interval."
    }
}
