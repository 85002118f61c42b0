package import PersistentHistory

/// Members of an object, each with its value, or null if there is none.
extension JSONBytes {
    package mutating func member(_ name: StaticString, _ number: Int64?) {
        self.name(name)
        if let number { integer(number) } else { null() }
    }

    package mutating func member(_ name: StaticString, _ flag: Bool?) {
        self.name(name)
        if let flag { bool(flag) } else { null() }
    }

    package mutating func member(_ name: StaticString, _ texts: [String]) {
        self.name(name)
        array { json in for text in texts { json.string(text) } }
    }

    /// In seconds.
    package mutating func member(_ name: StaticString, _ duration: Duration) {
        self.name(name)
        real(duration / .seconds(1))
    }
}
