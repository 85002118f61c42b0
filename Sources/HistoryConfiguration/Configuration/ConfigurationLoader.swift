import Glibc
import HistoryBase

/// Finds and reads the files of a configuration.
struct ConfigurationLoader {
    private static let environment = Variables { name in getenv(name).map { String(cString: $0) } }

    private let problems = ProblemList()
    private var files: [String] = []
    private var configurations = ConfigurationDecoder()
    private var manifests: ManifestDecoder
    private let checksStores: Bool

    /// - Parameters:
    ///   - checksCommands: Whether a plugin's command that cannot be started is an error.
    ///   - checksStores: Whether a condition that does not fit a store is an error.
    init(checksCommands: Bool, checksStores: Bool) {
        manifests = ManifestDecoder(checksCommands: checksCommands)
        self.checksStores = checksStores
    }

    mutating func load(file: String) throws(ConfigurationErrors) -> LoadedConfiguration {
        configurations.add(
            document(file, hint: "; historyd.json(5) describes the file, --config selects another"))
        addDropIns(besides: file)
        let configuration = configurations.finish()
        for plugin in configurations.plugins { addManifests(plugin) }

        let check = ReferenceCheck(references: manifests.references)
        if configurations.knowsAllNames { check.checkStores(of: configuration) }
        check.checkOrder(besides: [], complete: manifests.knowsAllNames)
        if checksStores {
            check.checkConditions(of: configuration)
            configurations.checkConditions()
        }
        for (plugin, node) in configurations.contextPlugins {
            ReferenceCheck.checkContext(
                plugin, at: node, in: manifests.plugins, complete: manifests.knowsAllNames)
        }
        if let errors = problems.errors { throw errors }
        return LoadedConfiguration(configuration: configuration, plugins: manifests.plugins, files: files)
    }

    private mutating func addDropIns(besides file: String) {
        let folder = ConfigurationFile.sibling("conf.d", of: file)
        guard ConfigurationFile.isFolder(folder) else { return }
        do throws(ConfigurationFile.Failure) {
            for dropIn in try ConfigurationFile.documents(in: folder) { configurations.add(document(dropIn)) }
        } catch {
            report(folder, error)
            configurations.add(nil)
        }
    }

    /// An unreadable path in `plugins` is a problem of the configuration, and is reported there.
    private mutating func addManifests(_ plugin: ConfigurationDecoder.PluginPath) {
        do throws(ConfigurationFile.Failure) {
            let isFolder = ConfigurationFile.isFolder(plugin.path)
            for path in isFolder ? try ConfigurationFile.documents(in: plugin.path) : [plugin.path] {
                do throws(ConfigurationFile.Failure) {
                    manifests.add(root(path, try ConfigurationFile.read(path)))
                } catch {
                    plugin.node.report("\(path.quoted) cannot be read: \(error)")
                    manifests.add(nil)
                }
            }
        } catch {
            plugin.node.report("\(plugin.path.quoted) cannot be read: \(error)")
            manifests.add(nil)
        }
    }

    private mutating func document(_ file: String, hint: String = "") -> DocumentNode? {
        do throws(ConfigurationFile.Failure) {
            return root(file, try ConfigurationFile.read(file))?.expanding(Self.environment)
        } catch {
            report(file, error, hint: hint)
            return nil
        }
    }

    private mutating func root(_ file: String, _ bytes: [UInt8]) -> DocumentNode? {
        files.append(file)
        let folder = ConfigurationFile.folder(of: file)
        return DocumentNode.root(
            of: bytes, source: DocumentNode.Source(file: file, folder: folder, problems: problems))
    }

    private func report(_ file: String, _ failure: ConfigurationFile.Failure, hint: String = "") {
        problems.report(
            ConfigurationProblem(file: file, position: nil, message: "cannot be read: \(failure)\(hint)"))
    }
}
