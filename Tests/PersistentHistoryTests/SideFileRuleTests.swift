import TestSupport
import Testing

@testable import PersistentHistory

/// Who makes a `-wal` with what rights: the decision alone, no file.
@Suite struct SideFileRuleTests {
    static let (daemon, app, other): (UInt32, UInt32, UInt32) = (100, 200, 300)

    /// The daemon in the application's group, in a folder that gives that group to new files.
    static func rule(
        _ mode: UInt32 = 0o660, owner: UInt32 = app, group: UInt32 = app, list: AccessList? = nil,
        setGroupID: Bool = true, defaults: AccessList? = nil, keepsLists: Bool = true, isWritable: Bool = true,
        user: UInt32 = daemon, groups: Set<UInt32> = [app]
    ) -> SideFileRule {
        SideFileRule(
            store: FileRights(owner: owner, group: group, mode: mode, list: list),
            folder: .init(
                group: app, hasSetGroupID: setGroupID, defaults: defaults, keepsLists: keepsLists,
                isWritable: isWritable),
            process: .init(user: user, group: user, groups: groups.union([user])), ownerGroups: [owner])
    }

    private func obstacle(_ decision: SideFileRule.Decision) throws -> SideFileRule.Obstacle {
        guard case .wait(let obstacle) = decision else {
            throw TestFailure("\(decision) is no obstacle")
        }
        return obstacle
    }

    struct TestFailure: Error { init(_ text: String) { Issue.record("\(text)") } }

    @Test func aGroupThatMayWriteInASetGroupIDFolderIsAllThatIsNeeded() {
        #expect(Self.rule().decision(for: nil) == .open)
        #expect(Self.rule(0o666).decision(for: nil) == .open)
        // The group of the application is the folder's, not one that the daemon could give.
        #expect(Self.rule(groups: []).decision(for: nil) == .open)
    }

    @Test(arguments: [0o640, 0o644, 0o600] as [UInt32])
    func aStoreThatOnlyItsOwnerMayWriteIsWaitedFor(_ mode: UInt32) throws {
        let obstacle = try obstacle(Self.rule(mode).decision(for: nil))
        #expect(obstacle.lockedOut == .user(Self.app, groups: [Self.app]))
        #expect(obstacle.remedy == [.letGroupWrite])
        #expect(!obstacle.isThere)
        // While the application has it open, there is nothing to make.
        let theirs = FileRights(owner: Self.app, group: Self.app, mode: mode, list: nil)
        #expect(Self.rule(mode).decision(for: theirs) == .open)
    }

    @Test func withoutSetGroupIDTheFileIsMadeWithTheGroup() {
        let made = FileRights(owner: Self.daemon, group: Self.app, mode: 0o660, list: nil)
        #expect(Self.rule(setGroupID: false).decision(for: nil) == .make(made))
    }

    @Test func anEntryForTheOwnerDoesWhereTheGroupCannotBeGiven() {
        let list = AccessList(users: [Self.daemon: [.read, .write]], ownGroup: [.read])
        let made = FileRights(
            owner: Self.daemon, group: Self.daemon, mode: 0o660,
            list: AccessList(
                users: [Self.app: [.read, .write]], groups: [Self.app: [.read]], ownGroup: []))
        #expect(Self.rule(list: list, setGroupID: false, groups: []).decision(for: nil) == .make(made))
    }

    @Test func aDefaultListThatNamesTheOwnerIsEnough() {
        let list = AccessList(users: [Self.daemon: [.read, .write]], ownGroup: [.read])
        let defaults = AccessList(
            users: [Self.daemon: [.read, .write], Self.app: [.read, .write]], groups: [Self.app: [.read]])
        let rule = Self.rule(list: list, setGroupID: false, defaults: defaults, groups: [])
        #expect(rule.decision(for: nil) == .open)
    }

    @Test func withoutListsTheDaemonHasToJoinTheGroup() throws {
        let rule = Self.rule(setGroupID: false, keepsLists: false, groups: [])
        #expect(try obstacle(rule.decision(for: nil)).remedy == [.inheritGroup])
        // A group that new files of all the system would get.
        let shared = HistoryError(try obstacle(rule.decision(for: nil)), "/tmp/store", .wal)
        #expect(shared.hint?.contains("put it into a folder of its own") == true)
        let own = HistoryError(try obstacle(rule.decision(for: nil)), "/srv/contacts/store", .wal)
        #expect(own.hint?.contains("chmod g+s /srv/contacts") == true)
        // Root's group is not to be joined.
        var roots = Self.rule(0o640, group: 0, setGroupID: false, keepsLists: false, groups: [])
        roots.ownerGroups = [0]
        #expect(try obstacle(roots.decision(for: nil)).remedy == [])
        let reader = Self.rule(0o640, setGroupID: false, keepsLists: false, groups: [])
        #expect(try obstacle(reader.decision(for: nil)).remedy == [.joinGroup(Self.app), .letGroupWrite])
    }

    @Test func aFileOfTheDaemonItselfIsMended() {
        let wrong = FileRights(owner: Self.daemon, group: Self.daemon, mode: 0o660, list: nil)
        var right = wrong
        right.group = Self.app
        #expect(Self.rule().decision(for: wrong) == .mend(right))
    }

    @Test func aFileOfSomebodyElseIsGivenBackByHand() throws {
        let stray = FileRights(owner: Self.other, group: Self.other, mode: 0o660, list: nil)
        let obstacle = try obstacle(Self.rule().decision(for: stray))
        #expect(obstacle.isThere)
        #expect(obstacle.remedy == [.giveBack])
    }

    @Test func aFileThatCannotBeMadeLocksNobodyOut() {
        #expect(Self.rule(0o644, isWritable: false).decision(for: nil) == .open)
    }

    @Test func rootGivesItToTheOwnerAndKeepsItsList() {
        #expect(Self.rule(0o640, user: 0).decision(for: nil) == .open)
        let list = AccessList(users: [Self.daemon: [.read, .write]], ownGroup: [.read])
        let made = FileRights(owner: Self.app, group: Self.app, mode: 0o660, list: list)
        #expect(Self.rule(list: list, user: 0).decision(for: nil) == .make(made))
    }

    @Test func aJournalComesAndGoesSoItIsNotPrepared() throws {
        #expect(Self.rule().decision(for: nil, mayPrepare: false) == .open)
        let obstacle = try obstacle(Self.rule(setGroupID: false).decision(for: nil, mayPrepare: false))
        #expect(obstacle.remedy == [.inheritGroup])
    }

    // MARK: All of them

    static let lists: [AccessList?] = [
        nil, AccessList(users: [daemon: [.read, .write]], ownGroup: [.read]),
        AccessList(users: [daemon: [.read]], ownGroup: [.read, .write]),
        AccessList(users: [other: [.read, .write]], groups: [other: [.read]], ownGroup: []),
        AccessList(groups: [other: [.read, .write]], ownGroup: [.read, .write]),
    ]

    static var all: [SideFileRule] {
        var rules: [SideFileRule] = []
        for mode in [0o600, 0o640, 0o644, 0o660, 0o664, 0o666, 0o606] as [UInt32] {
            for list in lists {
                for defaults in lists {
                    for (setGroupID, keepsLists) in [
                        (true, true), (true, false), (false, true), (false, false),
                    ] {
                        if !keepsLists, list != nil || defaults != nil { continue }
                        for owner in [app, daemon, 0] {
                            for user in [daemon, 0] {
                                for groups in [[], [app]] as [Set<UInt32>] {
                                    rules.append(
                                        rule(
                                            mode, owner: owner, list: list, setGroupID: setGroupID,
                                            defaults: defaults, keepsLists: keepsLists, user: user,
                                            groups: groups))
                                }
                            }
                        }
                    }
                }
            }
        }
        return rules
    }

    /// What anyone may do, by acl(5), written down once more.
    private func may(_ user: UInt32, _ groups: Set<UInt32>, _ digit: UInt8, _ file: FileRights) -> Bool {
        if user == 0 { return true }
        if user == file.owner { return UInt8(file.mode >> 6 & 7) & digit == digit }
        let mask = UInt8(file.mode >> 3 & 7)
        if let entry = file.list?.users[user] { return entry.rawValue & mask & digit == digit }
        var entries: [UInt8] = []
        if groups.contains(file.group) { entries.append(file.list?.ownGroup.rawValue ?? mask) }
        for (group, entry) in file.list?.groups ?? [:] where groups.contains(group) {
            entries.append(entry.rawValue)
        }
        if entries.isEmpty { return UInt8(file.mode & 7) & digit == digit }
        return entries.contains { $0 & mask & digit == digit }
    }

    @Test func whatIsMadeLetsEverybodyDoWhatTheyMayDoWithTheStore() {
        var counts: [String: Int] = [:]
        for rule in Self.all {
            let made: FileRights
            switch rule.decision(for: nil) {
            case .open: (made, counts["open", default: 0]) = (rule.madeBySQLite, counts["open", default: 0] + 1)
            case .make(let rights):
                (made, counts["make", default: 0]) = (rights, counts["make", default: 0] + 1)
                // SQLite sets the mode of an empty file to the store's.
                #expect(rights.mode == rule.store.mode)
                #expect(rights.list == nil || rule.folder.keepsLists)
            case .mend:
                Issue.record("There is nothing to mend.")
                continue
            case .wait:
                counts["wait", default: 0] += 1
                continue
            }
            // The owner in its group, a stranger in none, and one in each group.
            let people: [(UInt32, Set<UInt32>)] = [
                (rule.store.owner, [rule.store.owner]), (Self.other, []), (999, []), (998, [Self.app]),
                (997, [Self.other]), (996, [Self.daemon]),
            ]
            for (user, groups) in people where user != rule.process.user {
                for digit in [4, 6] as [UInt8] where may(user, groups, digit, rule.store) {
                    #expect(may(user, groups, digit, made), "\(user) in \(groups), \(rule) made \(made)")
                }
            }
        }
        #expect(counts.values.allSatisfy { $0 > 50 } && counts.count == 3, "\(counts)")
    }

    @Test func everyRemedyIsOne() {
        for rule in Self.all {
            guard case .wait(let obstacle) = rule.decision(for: nil) else { continue }
            // An owner outside of the group without lists is all that stays.
            #expect(!obstacle.remedy.isEmpty || !rule.folder.keepsLists, "\(rule)")
        }
    }

    @Test func aListIsReadAsItIsWritten() {
        for list in Self.lists.compactMap(\.self) {
            let bytes = list.bytes(mode: 0o660)
            bytes.withUnsafeBytes { #expect(AccessList($0) == list) }
            for count in 0..<bytes.count {
                // Cut anywhere: no trap.
                bytes.prefix(count).withUnsafeBytes { _ = AccessList($0) }
            }
        }
    }
}
