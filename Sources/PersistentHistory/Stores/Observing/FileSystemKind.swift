internal import CPlatform
internal import Glibc

/// A kind of file system on which inotify(7) does not report every write. Another machine makes some of
/// them, or a program that reaches the same files another way, such as through the folder behind a FUSE
/// mount.
///
/// A test write proves nothing: the kernel reports writes that come through the same mount.
package struct FileSystemKind: Sendable, Equatable {
    package let name: String

    /// How often to look at such a store if its configuration does not say.
    package static let interval: Duration = .seconds(1)

    /// The types of statfs(2), from `linux/magic.h` and the sources of the file systems.
    private static let names: [UInt32: String] = [
        0x6573_5546: "FUSE", 0x6969: "NFS", 0xFF53_4D42: "SMB", 0xFE53_4D42: "SMB", 0x517B: "SMB",
        0x0102_1997: "9P", 0x00C3_6400: "Ceph", 0x5346_414F: "AFS", 0x6B41_4653: "AFS", 0x7375_7245: "Coda",
        0x0BD0_0BD0: "Lustre", 0x0116_1970: "GFS2", 0x7461_636F: "OCFS2", 0x786F_4256: "VirtualBox",
        0xBACB_ACBC: "VMware",
    ]

    /// Nil for a type that is assumed to report every write.
    init?(type: UInt32) {
        guard let name = Self.names[type] else { return nil }
        self.name = name
    }

    /// The file system of a store that need not exist. May wait for the disk, or for another machine.
    ///
    /// - Returns: Nil if every write is reported, or if the file system is unknown.
    package init?(of store: String) {
        var status = statfs()
        guard statfs(PathNames.parent(of: StorePath.real(store)), &status) == 0 else { return nil }
        self.init(type: UInt32(truncatingIfNeeded: Int(status.f_type)))
    }

    /// What an operator should know about a store on it.
    package var note: String {
        "The store lies on a file system (\(name)) that does not report what is written to it elsewhere: it is looked at each second as well. \"poll\" of the store sets another interval."
    }
}
