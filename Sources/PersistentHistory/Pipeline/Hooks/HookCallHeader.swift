package import FoundationEssentials

/// The store, consumer and hook of a call: what every call carries.
package struct HookCallHeader: Sendable, Hashable {
    /// The parts of a delivery id.
    private enum Delivery: Sendable {
        case name(String)
        /// The id is composed only when it is read, because each call has one.
        case of(HistoryToken, group: Int, part: Int?)
    }

    let route: HookRoute
    private let name: Delivery

    /// The store's configured name.
    package var store: String { route.store }
    /// The author on whose behalf the changes were fetched.
    package var consumer: String { route.consumer }
    /// `plugin/hook`.
    package var hook: String { route.hook }
    package var hookID: UUID { route.hookID }
    var largeIntegers: LargeIntegers { route.largeIntegers }
    /// The same for a repeated call, so that a plugin can detect the repetition.
    package var delivery: String {
        let suffix = Replay.suffix(route.replay)
        return switch name {
        case .name(let name): name + suffix
        case .of(let token, let group, let part):
            "\(token)/\(consumer)/\(hook)/\(group)\(part.map { ".\($0)" } ?? "")\(suffix)"
        }
    }

    package init(
        store: String, consumer: String, hook: String, hookID: UUID, delivery: String,
        largeIntegers: LargeIntegers = .number
    ) {
        self.init(
            HookRoute(
                store: store, consumer: consumer, hook: hook, hookID: hookID, largeIntegers: largeIntegers),
            delivery: delivery)
    }

    /// - Parameter delivery: The id without the suffix of a replay.
    init(_ route: HookRoute, delivery: String) {
        self.route = route
        name = .name(delivery)
    }

    /// The header for a group of a transaction's changes.
    init(_ route: HookRoute, _ token: HistoryToken, group: Int, part: Int?) {
        self.route = route
        name = .of(token, group: group, part: part)
    }

    /// The delivery id of another part of the same group.
    func delivery(ofPart index: Int) -> String {
        switch name {
        case .of(let token, let group, _):
            return HookCallHeader(route, token, group: group, part: index).delivery
        case .name(let name):
            let bytes = name.utf8
            let group = bytes.lastIndex(of: UInt8(ascii: ".")).map { bytes[..<$0] } ?? bytes[...]
            return "\(Substring(group)).\(index)\(Replay.suffix(route.replay))"
        }
    }

    package static func == (a: Self, b: Self) -> Bool {
        a.hookID == b.hookID && a.delivery.hasSameBytes(as: b.delivery)
            && [a.store, a.consumer, a.hook].haveSameBytes(as: [b.store, b.consumer, b.hook])
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(hookID)
        hasher.combine(bytesOf: delivery)
    }

    /// Appends the members of the call with this header.
    func write(to json: inout JSONBytes) {
        switch name {
        case .name(let name):
            json.members(route.json)
            json.string(name + Replay.suffix(route.replay))
        case .of(let token, let group, let part): route.write(token, group: group, part: part, to: &json)
        }
    }
}

/// The route from a store through a consumer to a hook: what many calls have in common, written once.
final class HookRoute: Sendable {
    let store: String
    let consumer: String
    let hook: String
    let hookID: UUID
    let largeIntegers: LargeIntegers
    /// The replay that the calls belong to; nil for first calls.
    let replay: Int64?
    private let suffix: [UInt8]
    /// `"store":"contacts",…,"delivery":`
    let json: [UInt8]
    /// `/Mirror/audit/people/`, as in a JSON string.
    let deliveryEnd: [UInt8]

    convenience init(store: String, consumer: String, hook: Hook, replay: Int64? = nil) {
        self.init(
            store: store, consumer: consumer, hook: hook.name, hookID: hook.id,
            largeIntegers: hook.endpoint.largeIntegers, replay: replay)
    }

    init(
        store: String, consumer: String, hook: String, hookID: UUID, largeIntegers: LargeIntegers = .number,
        replay: Int64? = nil
    ) {
        self.largeIntegers = largeIntegers
        self.store = store
        self.consumer = consumer
        self.hook = hook
        self.hookID = hookID
        self.replay = replay
        suffix = Array(Replay.suffix(replay).utf8)
        var json = JSONBytes()
        json.member("store", store)
        json.member("consumer", consumer)
        json.member("hook", hook)
        json.name("hookID")
        json.uuid(hookID)
        if replay != nil { json.member("replay", true) }
        json.name("delivery")
        self.json = json.bytes.array
        deliveryEnd = JSONBytes.escaped("/\(consumer)/\(hook)/")
    }

    /// Appends the members of the call for a group of a transaction's changes.
    func write(_ token: HistoryToken, group: Int, part: Int?, to json: inout JSONBytes) {
        json.members(self.json)
        json.plainString { bytes in
            bytes.append(token.store)
            bytes.append(UInt8(ascii: ":"))
            bytes.append(decimal: token.number)
            bytes.append(deliveryEnd)
            bytes.append(decimal: Int64(group))
            if let part {
                bytes.append(UInt8(ascii: "."))
                bytes.append(decimal: Int64(part))
            }
            if replay != nil { bytes.append(suffix) }
        }
    }
}
