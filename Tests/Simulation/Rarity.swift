import CSimulation
import Glibc
import HistoryControl
import PersistentHistory

/// What hardly ever happens, and that each has its message for.
enum Rarity: String, CaseIterable, Sendable {
    /// The state's files are gone, or are no database.
    case losesState, spoilsState
    /// The store is no database for a while.
    case spoilsStore, mendsStore
    /// A table is no longer there for a while.
    case dropsTable, makesTable
    /// Somebody removes the triggers of a table, or the tables of the history.
    case dropsTriggers, losesHistory
    /// A trigger of the application decides what becomes of rows.
    case ignoresRows
    /// A plugin's program is not there for a while.
    case hidesProgram, showsProgram
    /// A plugin's process does nothing for a while, as after SIGSTOP.
    case stopsPlugin
    /// Nothing happens for more than a minute.
    case waits
    /// The machine is off for months.
    case staysOff
    /// The journal takes nothing for a while.
    case holdsJournal
    /// Hooks that were added fit no store any more.
    case spoilsHooks
    case addsHook, cleansByForce, resyncs, testsPlugin
    /// A user who may only query asks for more.
    case asksAsOther
    /// In a folder of stores: a file that is none, more of them than it may have, and the folder itself moved.
    case straysIn, straysOut, movesFolder, movesFolderBack
}

extension World {
    func perform(_ rarity: Rarity, on store: Int) {
        let setup = scenario.stores[store]
        let path = files.store(setup.name)
        record.write("rarity", setup.name, rarity.rawValue)
        switch rarity {
        case .losesState:
            for side in ["", "-wal", "-shm"] { unlink(self.path(store, .state) + side) }
            // As its message says.
            stop()
        case .spoilsState: overwrite(self.path(store, .state), with: "no database, nor has it ever been one")
        case .spoilsStore: overwrite(path, with: "no database at a")
        case .mendsStore: overwrite(path, with: "SQLite format 3\0")
        case .dropsTable: order("dropTable", setup.name)
        case .makesTable:
            if order("makeTable", setup.name) { break }
            // A connection that has read a spoiled first page keeps it: no change counter tells that it was mended.
            _ = writer.order("letGo", path)
            order("makeTable", setup.name)
        case .dropsTriggers: order("dropTriggers", setup.name)
        case .ignoresRows: order("ignoreRows", setup.name)
        case .losesHistory:
            if order("loseHistory", setup.name) { truth.beginsAgain(setup.name, at: csimulation_now()) }
        // Without it no daemon begins.
        case .hidesProgram where !serviceManager.sawReady: break
        case .hidesProgram:
            rename(files.program(of: store), files.program(of: store) + ".away")
            requests.send(.restartPlugin("p\(files.isShared ? 0 : store)"), within: 15_000_000_000)
        case .showsProgram: rename(files.program(of: store) + ".away", files.program(of: store))
        case .stopsPlugin:
            plugins.stop("p\(store)", until: csimulation_now() + Int64(csimulation_random() % 8_000_000_000))
        case .waits: csimulation_sleep(75_000_000_000)
        case .staysOff:
            csimulation_step_clock(100 * 86_400_000_000_000)
            stop()
        case .holdsJournal: csimulation_hold_journal(Int64(csimulation_random() % 10_000_000_000))
        case .spoilsHooks:
            mkdir(files.addedHooks, 0o700)
            overwrite(files.addedHooks + "/0001-added.json", with: requests.added(to: "none"))
            stop()
        case .addsHook, .cleansByForce, .resyncs, .testsPlugin, .asksAsOther: requests.ask(rarity, store: store)
        case .straysIn:
            overwrite(files.folder(of: setup.name) + "/stray.sqlite", with: "a file that is no database")
        case .straysOut: unlink(files.folder(of: setup.name) + "/stray.sqlite")
        case .movesFolder: rename(files.folder(of: setup.name), files.folder(of: setup.name) + ".away")
        case .movesFolderBack: rename(files.folder(of: setup.name) + ".away", files.folder(of: setup.name))
        }
    }

    /// - Returns: Whether it was done.
    @discardableResult
    private func order(_ what: String, _ store: String) -> Bool {
        let answer = writer.order(what, files.store(store))
        record.write("ordered", store, what, answer.joined(separator: " "))
        truth.isAltered(store, at: csimulation_now())
        return answer[0] == "ok"
    }

    private func overwrite(_ path: String, with text: String) {
        // A database that is not there is not made.
        let isNew = path.hasSuffix("stray.sqlite") || path.hasSuffix(".json")
        let descriptor = open(path, isNew ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY, 0o600)
        guard descriptor >= 0 else { return }
        _ = pwrite(descriptor, text, text.utf8.count, 0)
        close(descriptor)
    }

    /// All that is still wrong is put right: a folder first, for what is in it.
    func remedyRarities() {
        // Folders first, and a table is made in a store that can be read.
        let remedies: [Rarity] = [.movesFolderBack, .straysOut, .showsProgram, .mendsStore, .makesTable]
        for rarity in remedies {
            for store in scenario.stores.indices { perform(rarity, on: store) }
        }
    }
}
