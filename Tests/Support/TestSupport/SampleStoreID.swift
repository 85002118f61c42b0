import FoundationEssentials
public import PersistentHistory

extension StoreID {
    /// `00000000-0000-0000-0000-000000000001`, and so on.
    public static func sample(_ number: UInt8 = 1) -> StoreID {
        StoreID(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number)))
    }
}
