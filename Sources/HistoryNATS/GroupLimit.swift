/// How large a group may be: a publisher makes a snapshot instead of a larger one.
package enum GroupLimit {
    /// In bytes.
    package static let most = 4 << 30
    /// What is published as a group.
    package static let published = 2 << 30
}
