/// Archives a model as Core Data stores it: the objects of its classes, by their keys.
public struct ModelArchive {
    private let model: StoreModel
    private var objects: [PropertyListValue] = [.text("$null")]
    private var classes: [String: Int] = [:]
    private var entities: [String: Int] = [:]
    /// The objects of properties, by where they are declared.
    private var declared: [String: Int] = [:]

    /// A binary property list.
    public static func bytes(_ model: StoreModel) -> [UInt8] {
        var archive = ModelArchive(model: model)
        return archive.archived()
    }

    private init(model: StoreModel) { self.model = model }

    private mutating func archived() -> [UInt8] {
        let root = reserve()
        for entity in model.entities { entities[entity.name] = reserve() }
        for entity in model.entities {
            for property in entity.attributes.map(\.name) + entity.relationships.map(\.name) {
                declared[entity.name + "/" + property] = reserve()
            }
        }
        for entity in model.entities { describe(entity) }
        let all = knownKeys(model.entities.map { ($0.name, entities[$0.name] ?? 0) })
        set(root, "NSManagedObjectModel", [("NSEntities", .reference(all))])
        return PropertyListWriter.bytes(
            .dictionary([
                ("$version", .integer(100_000)), ("$archiver", .text("NSKeyedArchiver")),
                ("$top", .dictionary([("root", .reference(root))])), ("$objects", .array(objects)),
            ]))
    }

    // MARK: Entities

    private mutating func describe(_ entity: StoreModel.Entity) {
        for attribute in entity.attributes { describe(attribute, of: entity) }
        for relationship in entity.relationships { describe(relationship, of: entity) }
        var properties: [(String, Int)] = []
        for level in model.line(of: entity.name) {
            for name in level.attributes.map(\.name) + level.relationships.map(\.name) {
                let own = declared[level.name + "/" + name] ?? 0
                properties.append((name, level.name == entity.name ? own : proxy(of: own, for: entity.name)))
            }
        }
        let name = text(entity.name)
        let parent = entity.parent.flatMap { entities[$0] } ?? 0
        let all = dictionary(properties)
        set(
            entities[entity.name] ?? 0, "NSEntityDescription",
            [
                ("NSEntityName", .reference(name)), ("NSSuperentity", .reference(parent)),
                ("NSProperties", .reference(all)), ("NSIsAbstract", .bool(false)),
            ])
    }

    /// An inherited property is represented by a proxy, which may stand for another proxy.
    private mutating func proxy(of property: Int, for entity: String) -> Int {
        var underlying = property
        for _ in 0...(property % 2) {
            let number = reserve()
            set(
                number, "_NSPropertyDescriptionProxy",
                [
                    ("NSEntityDescription", .reference(entities[entity] ?? 0)),
                    ("NSUnderlyingProperty", .reference(underlying)),
                ])
            underlying = number
        }
        return underlying
    }

    private mutating func describe(_ attribute: StoreModel.Attribute, of entity: StoreModel.Entity) {
        let name = text(attribute.name)
        var members: [(String, PropertyListValue)] = [
            ("NSPropertyName", .reference(name)), ("NSAttributeType", .integer(attribute.type.rawValue)),
            ("NSEntity", .reference(entities[entity.name] ?? 0)),
            ("NSFlagsKey", .integer(attribute.isPreserved ? 24 : 8)), ("NSIsOptional", .bool(true)),
        ]
        if attribute.isTransient { members.append(("NSIsTransient", .bool(true))) }
        set(
            declared[entity.name + "/" + attribute.name] ?? 0,
            attribute.isDerived ? "NSDerivedAttributeDescription" : "NSAttributeDescription", members)
    }

    private mutating func describe(_ relationship: StoreModel.Relationship, of entity: StoreModel.Entity) {
        let name = text(relationship.name)
        var inverse = 0
        if let back = relationship.inverse {
            for level in model.line(of: relationship.destination) {
                inverse = declared[level.name + "/" + back] ?? inverse
            }
        }
        var members: [(String, PropertyListValue)] = [
            ("NSPropertyName", .reference(name)),
            ("NSDestinationEntity", .reference(entities[relationship.destination] ?? 0)),
            ("NSInverseRelationship", .reference(inverse)),
            ("NSMaxCount", .integer(relationship.isToMany ? 0 : 1)), ("NSMinCount", .integer(0)),
        ]
        if relationship.isOrdered { members.append(("NSIsOrdered", .bool(true))) }
        set(declared[entity.name + "/" + relationship.name] ?? 0, "NSRelationshipDescription", members)
    }

    // MARK: Objects

    private mutating func reserve() -> Int {
        objects.append(.text("$null"))
        return objects.count - 1
    }

    private mutating func set(_ number: Int, _ name: String, _ members: [(String, PropertyListValue)]) {
        let described = classReference(name)
        objects[number] = .dictionary([("$class", .reference(described))] + members)
    }

    private mutating func classReference(_ name: String) -> Int {
        if let known = classes[name] { return known }
        let number = reserve()
        objects[number] = .dictionary([
            ("$classname", .text(name)), ("$classes", .array([.text(name), .text("NSObject")])),
        ])
        classes[name] = number
        return number
    }

    /// Some strings are wrapped in an object.
    private mutating func text(_ text: String) -> Int {
        let number = reserve()
        if text.utf8.count % 5 == 0 {
            set(number, "NSMutableString", [("NS.string", .text(text))])
        } else {
            objects[number] = .text(text)
        }
        return number
    }

    /// A dictionary whose keys are in a shared object.
    private mutating func knownKeys(_ members: [(String, Int)]) -> Int {
        let keys = members.map { member in PropertyListValue.reference(text(member.0)) }
        let (keyArray, mapping, valueArray, empty, number) = (
            reserve(), reserve(), reserve(), reserve(), reserve()
        )
        set(keyArray, "NSArray", [("NS.objects", .array(keys))])
        set(valueArray, "NSArray", [("NS.objects", .array(members.map { .reference($0.1) }))])
        set(empty, "NSObject", [])
        set(
            mapping, "NSKnownKeysMappingStrategy1",
            [("keys", .reference(keyArray)), ("length", .integer(members.count)), ("version", .integer(1))])
        set(
            number, "NSKnownKeysDictionary1",
            [
                ("searchMapping", .reference(mapping)), ("values", .reference(valueArray)),
                ("emptyToken", .reference(empty)), ("version", .integer(1)),
            ])
        return number
    }

    private mutating func dictionary(_ members: [(String, Int)]) -> Int {
        let keys = members.map { member in PropertyListValue.reference(text(member.0)) }
        let number = reserve()
        set(
            number, "NSMutableDictionary",
            [
                ("NS.keys", .array(keys)),
                ("NS.objects", .array(members.map { .reference($0.1) })),
            ])
        return number
    }
}
