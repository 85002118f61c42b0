/// Everything that operators wrote, read and found to be right: the configuration, its drop-ins,
/// and the manifests that it names.
package struct LoadedConfiguration: Sendable, Hashable {
    package let configuration: DaemonConfiguration
    /// Of all manifests, in their order: files, then plugins in them.
    package let plugins: [PluginConfiguration]
    /// The files that were read, in that order.
    package let files: [String]

    /// The configuration itself, absolute: its reader may be in another folder.
    package var path: String {
        guard let file = files.first, let name = file.split(separator: "/").last else { return "" }
        return "\(ConfigurationFile.folder(of: file))/\(name)"
    }

    /// The merge hooks as the pipeline calls them.
    package var mergePipeline: [HookConfiguration] { MergeOrder.pipeline(of: plugins) }

    /// Reads a configuration, `conf.d/*.json` beside it, and all manifests.
    ///
    /// A drop-in adds stores and manifests to those of the files before it, and its log level and
    /// stop timeout take the place of theirs. Whether a store's file is there is not looked at.
    ///
    /// - Parameters:
    ///   - checkingCommands: Whether a plugin's command that cannot be started is an error: a daemon that starts tries
    ///     it again, since its disk may be mounted later.
    ///   - checkingStores: Whether a condition that does not fit a store is an error, which may wait for disks: a daemon
    ///     holds the consumers that such a condition concerns.
    /// - Throws: `ConfigurationErrors` with all that is wrong in all these files; also where one
    ///   cannot be read.
    package static func load(
        file: String, checkingCommands: Bool = false, checkingStores: Bool = false
    ) throws(ConfigurationErrors) -> LoadedConfiguration {
        var loader = ConfigurationLoader(checksCommands: checkingCommands, checksStores: checkingStores)
        return try loader.load(file: file)
    }
}

extension PluginConfiguration {
    /// Reads a manifest that joins a configuration in force.
    ///
    /// - Parameters:
    ///   - bytes: The manifest.
    ///   - file: What it is called in messages, and where relative paths in it begin.
    ///   - configuration: Says which stores and consumers there are.
    ///   - others: The plugins that are there already.
    ///   - checkingStores: Whether conditions are checked against the stores that are there, which may wait for disks.
    /// - Throws: `ConfigurationErrors` with all that is wrong in it.
    package static func read(
        manifest bytes: [UInt8], file: String, for configuration: DaemonConfiguration,
        besides others: [PluginConfiguration], checkingStores: Bool = false
    ) throws(ConfigurationErrors) -> [PluginConfiguration] {
        try read(manifest: bytes, file: file, besides: others) { decoder in
            let check = ReferenceCheck(references: decoder.references)
            check.checkStores(of: configuration)
            if checkingStores { check.checkConditions(of: configuration) }
            check.checkOrder(besides: others.flatMap(\.hooks), complete: decoder.knowsAllNames)
        }
    }

    /// Reads a manifest by itself, whatever the stores, consumers and hooks that it refers to.
    ///
    /// - Throws: `ConfigurationErrors` with all that is wrong in it.
    package static func read(manifest bytes: [UInt8], file: String) throws(ConfigurationErrors)
        -> [PluginConfiguration]
    {
        try read(manifest: bytes, file: file, besides: []) { _ in }
    }

    private static func read(
        manifest bytes: [UInt8], file: String, besides others: [PluginConfiguration],
        _ check: (ManifestDecoder) -> Void
    ) throws(ConfigurationErrors) -> [PluginConfiguration] {
        let problems = ProblemList()
        let source = DocumentNode.Source(
            file: file, folder: ConfigurationFile.folder(of: file), problems: problems)
        var decoder = ManifestDecoder(existing: Set(others.map(\.name)))
        decoder.add(DocumentNode.root(of: bytes, source: source))
        check(decoder)
        if let errors = problems.errors { throw errors }
        return decoder.plugins
    }
}
