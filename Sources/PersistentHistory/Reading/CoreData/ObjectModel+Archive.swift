extension ObjectModel {
    /// Why a model could not be read. Without it, only names are unknown.
    struct Unreadable: Error, Hashable {
        let message: String
        init(_ message: String) { self.message = message }
    }

    /// Far more than any model has.
    private static let mostBytes = 64 << 20
    private static let mostEntities = 10_000
    private static let mostProperties = 200_000
    private static let mostWork = 2_000_000

    /// Reads the content of `Z_MODELCACHE`: a keyed archive in a binary property list, compressed with
    /// raw DEFLATE. It may also have zlib's header, or be uncompressed.
    init(compressed bytes: [UInt8]) throws(Unreadable) {
        do {
            if bytes.starts(with: "bplist0".utf8) {
                try self.init(archive: bytes)
            } else {
                let start = Self.hasZlibHeader(bytes) ? 2 : 0
                try self.init(archive: Inflate.inflate(Array(bytes[start...]), limit: Self.mostBytes))
            }
        } catch let error as Inflate.Failure {
            throw Unreadable("it cannot be decompressed: \(error.message)")
        } catch let error as KeyedArchive.Failure {
            throw Unreadable("its archive is damaged: \(error.message)")
        } catch let error as Unreadable {
            throw error
        } catch {
            throw Unreadable("\(error)")
        }
    }

    /// A header as in RFC 1950. As raw DEFLATE, it would be a stored block with nonzero padding.
    private static func hasZlibHeader(_ bytes: [UInt8]) -> Bool {
        bytes.count > 2 && bytes[0] & 15 == 8 && (Int(bytes[0]) << 8 | Int(bytes[1])) % 31 == 0
            && bytes[1] & 0x20 == 0
    }

    private init(archive bytes: [UInt8]) throws {
        var archive = try KeyedArchive(bytes)
        guard let root = archive.root, let found = try archive.dictionary("NSEntities", of: root),
            found.count <= Self.mostEntities
        else { throw Unreadable("it has no entities, or too many") }
        var names: [KeyedArchive.Object: String] = [:]
        for (_, object) in found {
            guard let name = try archive.text("NSEntityName", of: object) else {
                throw Unreadable("an entity has no name")
            }
            names[object] = name
        }
        var reader = PropertyReader(archive: archive, entities: names)
        var entities: [BinaryText: Entity] = [:]
        for (object, name) in names {
            guard entities.updateValue(try reader.entity(object, name), forKey: name) == nil else {
                throw Unreadable("two entities have one name")
            }
            if reader.count > Self.mostProperties { throw Unreadable("it has too many properties") }
        }
        self.init(entities: entities)
        if work(atMost: Self.mostWork) == nil { throw Unreadable("it has too many inherited properties") }
    }
}

/// Reads the descriptions of entities and properties.
private struct PropertyReader {
    var archive: KeyedArchive
    let entities: [KeyedArchive.Object: String]
    var count = 0
    /// An inherited property occurs once for each entity that has it.
    var known: [KeyedArchive.Object: ObjectModel.Property.Kind] = [:]

    mutating func entity(_ object: KeyedArchive.Object, _ name: String) throws -> ObjectModel.Entity {
        var properties: [BinaryText: ObjectModel.Property] = [:]
        for (name, property) in try archive.dictionary("NSProperties", of: object) ?? [] {
            properties[name] = ObjectModel.Property(name: name, kind: try kind(of: property))
            count += 1
        }
        let parent = try archive.object("NSSuperentity", of: object)
        if let parent, entities[parent] == nil {
            throw ObjectModel.Unreadable("an entity inherits from one that is not there")
        }
        return ObjectModel.Entity(
            name: name, parent: parent.flatMap { entities[$0] },
            isAbstract: try archive.integer("NSIsAbstract", of: object) == 1, properties: properties)
    }

    private mutating func kind(of object: KeyedArchive.Object) throws -> ObjectModel.Property.Kind {
        if let kind = known[object] { return kind }
        let (property, name) = try underlying(object)
        let kind: ObjectModel.Property.Kind
        switch name {
        case "NSAttributeDescription", "NSDerivedAttributeDescription":
            kind = .attribute(try attribute(property, isDerived: name == "NSDerivedAttributeDescription"))
        case "NSRelationshipDescription": kind = .relationship(try relationship(property))
        case "NSFetchedPropertyDescription": kind = .fetchedProperty
        default: kind = .other(name)
        }
        known[object] = kind
        return kind
    }

    /// A proxy stands for an inherited property, or for another proxy.
    private mutating func underlying(_ object: KeyedArchive.Object) throws -> (KeyedArchive.Object, String) {
        var object = object
        for _ in 0..<1000 {
            guard let name = try archive.className(of: object) else {
                throw ObjectModel.Unreadable("a property has no class")
            }
            guard name == "_NSPropertyDescriptionProxy" else { return (object, name) }
            guard let next = try archive.object("NSUnderlyingProperty", of: object) else {
                throw ObjectModel.Unreadable("a property stands for none")
            }
            object = next
        }
        throw ObjectModel.Unreadable("a property stands for itself")
    }

    private mutating func attribute(_ object: KeyedArchive.Object, isDerived: Bool) throws
        -> ObjectModel.Attribute
    {
        ObjectModel.Attribute(
            type: ObjectModel.AttributeType(try archive.integer("NSAttributeType", of: object) ?? 0),
            isTransient: try archive.integer("NSIsTransient", of: object) == 1, isDerived: isDerived,
            isPreserved: (try archive.integer("NSFlagsKey", of: object) ?? 0) & 16 != 0)
    }

    private mutating func relationship(_ object: KeyedArchive.Object) throws -> ObjectModel.Relationship {
        let destination = try archive.object("NSDestinationEntity", of: object).flatMap { entities[$0] }
        let name = try archive.text("_NSDestinationEntityName", of: object)
        var inverse: ObjectModel.Inverse?
        if let back = try archive.object("NSInverseRelationship", of: object) {
            let (property, _) = try underlying(back)
            inverse = ObjectModel.Inverse(
                name: try archive.text("NSPropertyName", of: property) ?? "",
                isToMany: try isToMany(property), isOrdered: try isOrdered(property))
        }
        return ObjectModel.Relationship(
            destination: destination ?? name, isToMany: try isToMany(object),
            isOrdered: try isOrdered(object), inverse: inverse)
    }

    private mutating func isToMany(_ object: KeyedArchive.Object) throws -> Bool {
        try archive.integer("NSMaxCount", of: object) != 1
    }

    private mutating func isOrdered(_ object: KeyedArchive.Object) throws -> Bool {
        try archive.integer("NSIsOrdered", of: object) == 1
    }
}
