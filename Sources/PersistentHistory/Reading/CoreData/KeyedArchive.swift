/// The objects of a keyed archive, read as data: no class is looked up or instantiated.
///
/// Each access uses one unit of a limited amount of work, because an archive may refer to anything any
/// number of times.
struct KeyedArchive {
    typealias Failure = BinaryPropertyList.Failure

    /// An object of the archive, identified by its number.
    struct Object: Hashable {
        let number: Int
        fileprivate let keys: BinaryPropertyList.References
        fileprivate let values: BinaryPropertyList.References

        static func == (a: Self, b: Self) -> Bool { a.number == b.number }
        func hash(into hasher: inout Hasher) { hasher.combine(number) }
    }

    private let list: BinaryPropertyList
    private var objects = BinaryPropertyList.References.none
    private var work: Int
    /// For example, an `NSManagedObjectModel`, if `$top` refers to it as the root.
    private(set) var root: Object?

    /// - Parameter work: How many members may be read before the archive is given up.
    init(_ bytes: [UInt8], work: Int = 20_000_000) throws(Failure) {
        list = try BinaryPropertyList(bytes)
        self.work = work
        guard case .dictionary(let keys, let values) = try list.node(list.top) else {
            throw Failure("it is not a keyed archive")
        }
        let top = Object(number: -1, keys: keys, values: values)
        guard case .array(let objects)? = try member("$objects", of: top),
            case .dictionary(let topKeys, let topValues)? = try member("$top", of: top)
        else { throw Failure("it is not a keyed archive") }
        self.objects = objects
        root = try object("root", of: Object(number: -1, keys: topKeys, values: topValues))
    }

    // MARK: Members

    /// The name of an object's class.
    mutating func className(of object: Object) throws(Failure) -> String? {
        guard let description = try self.object("$class", of: object) else { return nil }
        return try text("$classname", of: description)
    }

    mutating func object(_ name: StaticString, of object: Object) throws(Failure) -> Object? {
        guard case .uid(let number)? = try member(name, of: object) else { return nil }
        return try self.object(number)
    }

    /// A text that is stored directly, or in an object that holds it.
    mutating func text(_ name: StaticString, of object: Object) throws(Failure) -> String? {
        guard let node = try member(name, of: object) else { return nil }
        return try text(node)
    }

    mutating func integer(_ name: StaticString, of object: Object) throws(Failure) -> Int64? {
        switch try member(name, of: object) {
        case .integer(let value): value
        case .bool(let value): value ? 1 : 0
        default: nil
        }
    }

    /// The pairs of an archived dictionary whose values are objects; nil if it does not exist.
    mutating func dictionary(_ name: StaticString, of object: Object) throws(Failure) -> [(String, Object)]? {
        guard let dictionary = try self.object(name, of: object) else { return nil }
        guard let keys = try keys(of: dictionary), let values = try values(of: dictionary),
            keys.count == values.count
        else { return nil }
        // A placeholder for a key without a value.
        let absent = try self.object("emptyToken", of: dictionary)
        var pairs: [(String, Object)] = []
        for index in 0..<keys.count {
            try spend(1)
            guard let key = try text(try list.node(try list.number(keys, index))),
                case .uid(let number) = try list.node(try list.number(values, index)),
                let value = try self.object(number)
            else { throw Failure("a dictionary has a member that is no object with a name") }
            if value != absent { pairs.append((key, value)) }
        }
        return pairs
    }

    /// An `NSDictionary` contains its keys; an `NSKnownKeysDictionary1` refers to an object that many of
    /// them share.
    private mutating func keys(of dictionary: Object) throws(Failure) -> BinaryPropertyList.References? {
        if case .array(let keys)? = try member("NS.keys", of: dictionary) { return keys }
        guard let mapping = try object("searchMapping", of: dictionary) else { return nil }
        return try elements("keys", of: mapping)
    }

    private mutating func values(of dictionary: Object) throws(Failure) -> BinaryPropertyList.References? {
        if case .array(let values)? = try member("NS.objects", of: dictionary) { return values }
        return try elements("values", of: dictionary)
    }

    /// The elements of an archived array.
    private mutating func elements(_ name: StaticString, of object: Object) throws(Failure)
        -> BinaryPropertyList.References?
    {
        guard let array = try self.object(name, of: object),
            case .array(let elements)? = try member("NS.objects", of: array)
        else { return nil }
        return elements
    }

    // MARK: Nodes

    private mutating func member(_ name: StaticString, of object: Object) throws(Failure)
        -> BinaryPropertyList.Node?
    {
        for index in 0..<object.keys.count {
            try spend(1)
            guard list.isText(try list.node(try list.number(object.keys, index)), name) else { continue }
            return try list.node(try list.number(object.values, index))
        }
        return nil
    }

    /// Nil if it is not an object with members, but `$null`, a text or a number.
    private mutating func object(_ number: Int) throws(Failure) -> Object? {
        guard case .dictionary(let keys, let values) = try node(number) else { return nil }
        return Object(number: number, keys: keys, values: values)
    }

    private mutating func node(_ number: Int) throws(Failure) -> BinaryPropertyList.Node {
        try spend(1)
        return try list.node(try list.number(objects, number))
    }

    private mutating func text(_ node: BinaryPropertyList.Node) throws(Failure) -> String? {
        guard case .uid(let number) = node else { return try plainText(node) }
        let node = try self.node(number)
        if case .dictionary(let keys, let values) = node {
            let object = Object(number: number, keys: keys, values: values)
            return try member("NS.string", of: object).flatMap { node throws(Failure) in try plainText(node) }
        }
        return try plainText(node)
    }

    private mutating func plainText(_ node: BinaryPropertyList.Node) throws(Failure) -> String? {
        if case .ascii(let range) = node { try spend(range.count / 16) }
        if case .utf16(let range) = node { try spend(range.count / 16) }
        return list.text(node).flatMap { $0 == "$null" ? nil : $0 }
    }

    private mutating func spend(_ units: Int) throws(Failure) {
        work -= 1 + units
        if work < 0 { throw Failure("it takes more work than any valid model needs") }
    }
}

extension BinaryPropertyList.References {
    fileprivate static let none = Self(start: 0, count: 0)
}
