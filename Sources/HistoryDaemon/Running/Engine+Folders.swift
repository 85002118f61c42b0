package import HistoryConfiguration
import Logging
import PersistentHistory

/// Starts and stops stores as their files appear in a folder and disappear.
extension Engine {
    /// How long the calls of a store may take to end after its file is gone.
    private static let farewell: Duration = .seconds(1)
    /// After this many, the refused files of a folder are no longer named.
    private static let mostRefusals = 50

    /// Starts to watch a folder; its stores follow.
    func watch(_ template: StoreTemplate) -> RunningFolder {
        lastFolder += 1
        let number = lastFolder
        let (events, continuation) = AsyncStream.makeStream(of: [FolderEvent].self)
        let watcher = FolderWatcher(template.rules(excluding: dependencies.stateFolder)) {
            continuation.yield($0)
        }
        let listed = OneShotEvent()
        let service = storeHost.start(
            FolderService(watcher: watcher, events: events, source: continuation) { [weak self] batch in
                // The engine's changes are made one at a time. Once it stops, no more are made.
                try? await self?.jobs.perform { [weak self] in await self?.take(batch, of: number) }
                if batch.contains(.listed) { listed.signal() }
            })
        return RunningFolder(number, template, service: service, watcher: watcher, listed: listed)
    }

    /// The folders of a configuration: those that are watched already keep running.
    func folders(of templates: [StoreTemplate]) -> [RunningFolder] {
        var old = folders
        return templates.map { template in
            guard let index = old.firstIndex(where: { $0.template.watchesSameFiles(as: template) }) else {
                return watch(template)
            }
            var folder = old.remove(at: index)
            folder.template = template
            return folder
        }
    }

    /// Applies what has happened in a folder.
    private func take(_ events: [FolderEvent], of number: Int) async {
        guard let index = folders.firstIndex(where: { $0.number == number }) else { return }
        var begun: [String: StoreConfiguration] = [:]
        var ended: Set<String> = []
        func note(_ change: StoreCatalog.Change) {
            for name in change.ended where begun.removeValue(forKey: name) == nil { ended.insert(name) }
            for store in change.begun { begun[store.name] = store }
            for (path, why) in change.refused { refuse(path, why.text, in: index) }
        }
        for event in events {
            switch event {
            case .appeared(let path):
                folders[index].add(path)
                note(storeCatalog.appear(.init(template: index, path: path)))
            case .gone(let path):
                folders[index].remove(path)
                note(storeCatalog.disappear(.init(template: index, path: path)))
            case .replaced(let path, let why):
                folders[index].remove(path)
                note(storeCatalog.disappear(.init(template: index, path: path)))
                refuse("\(folders[index].template.folder)/\(path)", why.text, in: index)
            case .refused(let path, let why):
                refuse("\(folders[index].template.folder)/\(path)", why.text, in: index)
            case .crowded(let isCrowded): noteCrowded(isCrowded, of: index)
            case .missing(let isMissing): noteMissing(isMissing, of: index)
            case .trouble(let trouble): noteTrouble(trouble, of: index)
            case .listed: break
            }
        }
        showFolders()
        logChanges(begun.keys.sorted(), ended.sorted(), of: folders[index].template)
        await exchange(ending: ended, beginning: Array(begun.values))
    }

    /// Ends some stores and starts others, and leaves all other stores alone.
    private func exchange(ending names: Set<String>, beginning: [StoreConfiguration]) async {
        let ending = names.isEmpty ? [] : stores.filter { names.contains($0.name) }
        let passes = ending.map(\.control.passes)
        if !ending.isEmpty {
            await finish(ending, within: Self.farewell)
            let gone = ending.compactMap(\.control.lastStoreID)
            await onPool { [folder = dependencies.stateFolder] in
                for store in gone { UnusedStates.note(store.description, in: folder) }
            }
            for store in ending {
                store.control.end()
                store.up.signal()
            }
            forget(names)
        }
        // The states that were used least recently are taken first: a renamed store finds its own.
        begin(beginning.sorted { $0.name < $1.name })
        for pass in passes { pass.release(by: .reload) }
        dependencies.status.change(
            ending: names, beginning: beginning.map { ($0, Set($0.consumers.map(\.name))) })
    }

    // MARK: Saying it

    private func logChanges(_ begun: [String], _ ended: [String], of template: StoreTemplate) {
        func named(_ names: [String]) -> String {
            names.prefix(3).map { "\"\($0)\"" }.joined(separator: ", ") + (names.count > 3 ? ", …" : "")
        }
        let parts = [
            begun.isEmpty ? nil : "\(begun.count, "store") more (\(named(begun)))",
            ended.isEmpty ? nil : "\(ended.count, "store") gone (\(named(ended)))",
        ].compactMap(\.self)
        guard !parts.isEmpty else { return }
        dependencies.logger.info(
            "Folder \"\(template.folder)\": \(parts.joined(separator: ", ")).",
            metadata: ["template": "\(template.name)"])
    }

    private func refuse(_ path: String, _ why: String, in index: Int) {
        folders[index].refusals += 1
        let template = folders[index].template.name
        switch folders[index].refusals {
        case ...Self.mostRefusals:
            dependencies.logger.report(
                .fileRefused, "\"\(path.printable)\" is no store of \"\(template)\": \(why)",
                metadata: ["template": "\(template)"])
        case Self.mostRefusals + 1:
            dependencies.logger.report(
                .fileRefused, "More files in \"\(folders[index].template.folder)\" are refused, and not named.",
                metadata: ["template": "\(template)"])
        default: break
        }
    }

    private func noteCrowded(_ isCrowded: Bool, of index: Int) {
        folders[index].isCrowded = isCrowded
        let template = folders[index].template
        guard isCrowded else { return }
        dependencies.logger.report(
            .folderCrowded,
            "The folder \"\(template.folder)\" has more files than \"maximumStores\", \(template.maximumStores), of \"\(template.name)\": the others are not served.",
            metadata: ["template": "\(template.name)"])
    }

    private func noteMissing(_ isMissing: Bool, of index: Int) {
        folders[index].isMissing = isMissing
        let template = folders[index].template
        dependencies.logger.notice(
            isMissing
                ? "The folder \"\(template.folder)\" of \"\(template.name)\" does not exist. Its stores are served as soon as it does."
                : "The folder \"\(template.folder)\" of \"\(template.name)\" exists.",
            metadata: ["template": "\(template.name)"])
    }

    private func noteTrouble(_ trouble: String?, of index: Int) {
        folders[index].trouble = trouble
        // It is looked for again after that, and missed again if it is not there.
        folders[index].isMissing = false
        guard let trouble else { return }
        let template = folders[index].template
        dependencies.logger.report(
            .folderUnwatched,
            "The folder \"\(template.folder)\" of \"\(template.name)\" is not watched. \(trouble)",
            metadata: ["template": "\(template.name)"])
    }

    /// Copies what is wrong with folders into the status.
    func showFolders() {
        dependencies.status.update { [folders] status in
            status.folders = Dictionary(
                folders.map { folder in
                    (
                        folder.template.name,
                        RuntimeStatus.Folder(
                            path: folder.template.folder, problem: folder.trouble, isMissing: folder.isMissing,
                            maximum: folder.isCrowded ? folder.template.maximumStores : nil)
                    )
                }
            ) { first, _ in first }
        }
    }
}

extension StoreTemplate {
    /// The number of stores in the folder now, and the files that are refused, with the reason.
    ///
    /// - Throws: `ObserverError` where the folder cannot be read.
    package func check(_ index: Int, in configuration: DaemonConfiguration, stateFolder: String) throws -> (
        stores: Int, refused: [String]
    ) {
        var storeCatalog = StoreCatalog(configuration)
        var refused: [String] = []
        for event in try FolderWatcher.list(rules(excluding: stateFolder)) {
            switch event {
            case .appeared(let path):
                refused += storeCatalog.appear(.init(template: index, path: path)).refused.map {
                    "\"\($0.path.printable)\" is no store: \($0.why.text)"
                }
            case .refused(let path, let why):
                refused.append("\"\(folder)/\(path.printable)\" is no store: \(why.text)")
            case .crowded(true):
                refused.append(
                    "The folder \"\(folder)\" has more than \(maximumStores) files, \"maximumStores\".")
            default: break
            }
        }
        return (storeCatalog.stores.count, refused)
    }
}

extension StoreCatalog.Refusal {
    fileprivate var text: String {
        switch self {
        case .name(.unusableName): FolderRefusal.unusableName.text
        case .name(.tooLong): "its name is too long."
        case .name(.tooDeep): "it lies under more than \(TemplateFile.mostFolders) folders."
        case .nameTaken(let name, let path):
            "\"\(path)\" has the name \"\(name)\" already. Use {path} in the entry's name, or rename one of the two."
        case .fileTaken(let name): "it is the store \"\(name)\" already."
        }
    }
}

extension FolderRefusal {
    fileprivate var text: String {
        switch self {
        case .link: "it is a symbolic link, which is not followed."
        case .notAFile: "it is not a file."
        case .otherNames: "it has other names (hard links)."
        case .notADatabase: "it is not an SQLite database, or it is encrypted."
        case .unusableName:
            "its name has other characters than the letters and digits of ASCII and . _ - @ + =, begins with -, or is too long."
        }
    }
}
