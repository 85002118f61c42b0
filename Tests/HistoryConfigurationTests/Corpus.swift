import Testing

/// A document, good or bad, and the problems that reading it gives: `line:column: key path: message`.
struct CorpusCase: Sendable, CustomTestStringConvertible {
    let name: String
    let text: String
    let problems: [String]
    /// False for a rule that no JSON Schema can express: it then takes the document for good.
    let schemaKnows: Bool

    var testDescription: String { name }

    static func good(_ name: String, _ text: String) -> Self {
        Self(name: name, text: text, problems: [], schemaKnows: true)
    }

    static func bad(_ name: String, _ text: String, _ problems: String...) -> Self {
        Self(name: name, text: text, problems: problems, schemaKnows: true)
    }

    static func badBeyondSchema(_ name: String, _ text: String, _ problems: String...) -> Self {
        Self(name: name, text: text, problems: problems, schemaKnows: false)
    }
}

// The keys under test are on line 2.

/// A configuration whose store has these keys too.
private func store(_ keys: String) -> String {
    "{\"version\": 1, \"stores\": [{\"name\": \"s\", \"path\": \"/s.db\",\n\(keys)\n}]}"
}

/// A configuration whose only author has these keys too.
private func author(_ keys: String) -> String {
    "{\"version\": 1, \"stores\": [{\"name\": \"s\", \"path\": \"/s.db\", \"authors\": [{\"name\": \"A\",\n\(keys)\n}]}]}"
}

/// A configuration whose only store, which tracks `person` and `item`, has these contexts.
private func contexts(_ contexts: String) -> String {
    """
    {"version": 1, "stores": [{"name": "s", "path": "/s.db", "entities": {"person": {}, "item": {}}, "authors": [{"name": "A", "contexts": [
    \(contexts)
    ]}]}]}
    """
}

private func top(_ keys: String) -> String {
    "{\"version\": 1, \"stores\": [{\"name\": \"s\", \"path\": \"/s.db\"}],\n\(keys)\n}"
}

private let duration = "a duration: seconds, or text such as \"500ms\", \"5s\", \"3m\", \"2h\" or \"7d\""
private let storeKeys =
    "Allowed: name, path, entities, authors, unlistedAuthors, cleanUnlisted, includingMirroring, mirroringAuthors, clean, poll, healthyLag, autoStart, mirror, source, folder, pattern, recursive, maximumStores, keepState, rest, metricsPerStore"
private let in0 = "stores[0]"
private let context0 = "stores[0].authors[0].contexts[0]"
private let long = String(repeating: "é", count: 128)

/// A configuration with an entry for a folder that has these keys too.
private func folder(_ keys: String) -> String {
    "{\"version\": 1, \"stores\": [{\"folder\": \"/srv/tenants\",\n\(keys)\n}]}"
}

let configurationCorpus: [CorpusCase] = [
    .good("a folder of stores", folder("\"name\": \"tenant-{name}\", \"pattern\": \"*.sqlite\"")),
    .good(
        "every key of a folder",
        folder(
            """
            "name": "{path}", "pattern": "?*.db", "recursive": true, "maximumStores": 20000, "keepState": "30d", "metricsPerStore": true,\
            "entities": "*", "authors": [{"name": "A", "contexts": [\
            {"name": "r", "kind": "replica", "path": "/srv/views/{name}.sqlite", "group": "g-{name}"}]}]
            """)),
    .bad(
        "a folder without a pattern", folder("\"name\": \"{name}\""),
        "1:27: \(in0).pattern: missing, expected a pattern of file names such as \"*.sqlite\""),
    .bad(
        "a folder and a path", folder("\"name\": \"{name}\", \"pattern\": \"*\", \"path\": \"/s\""),
        "2:35: \(in0).path: an entry with a \"folder\" has no path: each file in the folder is a store"),
    .bad(
        "a folder that is polled", folder("\"name\": \"{name}\", \"pattern\": \"*\", \"poll\": 5"),
        "2:35: \(in0).poll: a folder is watched by inotify, and so are its stores"),
    .bad(
        "a folder with one name", folder("\"name\": \"tenants\", \"pattern\": \"*\""),
        "2:9: \(in0).name: expected {name} or {path} in it, because each store needs its own; found \"tenants\""
    ),
    .badBeyondSchema(
        "an unknown placeholder", folder("\"name\": \"{name}-{id}\", \"pattern\": \"*\""),
        "2:9: \(in0).name: unknown placeholder \"{id}\". Allowed: {name}, {path}"),
    .bad(
        "a pattern with folders", folder("\"name\": \"{name}\", \"pattern\": \"a/*\""),
        "2:30: \(in0).pattern: expected a pattern of file names such as \"*.sqlite\", found \"a/*\"; \"recursive\" includes folders below"
    ),
    .bad(
        "no stores at most", folder("\"name\": \"{name}\", \"pattern\": \"*\", \"maximumStores\": 0"),
        "2:52: \(in0).maximumStores: expected a whole number from 1 through 1000000, found 0"),
    .good("stores that rest", folder("\"name\": \"{name}\", \"pattern\": \"*\", \"rest\": \"5m\"")),
    .bad(
        "stores that rest for long", folder("\"name\": \"{name}\", \"pattern\": \"*\", \"rest\": 604801"),
        "2:43: \(in0).rest: expected a duration from 1ms through 7d, found 604801"),
    .badBeyondSchema(
        "stores with contexts that rest",
        folder(
            "\"name\": \"{name}\", \"pattern\": \"*\", \"rest\": 5, \"authors\": [{\"name\": \"A\", \"contexts\": [{\"name\": \"f\", \"kind\": \"feed\"}]}]"
        ), "2:43: \(in0).rest: a store with contexts stays open; leave \"rest\" or \"contexts\" out"),
    .bad(
        "a pattern without a folder", store("\"pattern\": \"*\""),
        "2:1: \(in0).pattern: only an entry with a \"folder\" has it"),
    .badBeyondSchema(
        "one replica for all",
        folder(
            "\"name\": \"{name}\", \"pattern\": \"*\", \"authors\": [{\"name\": \"A\", \"contexts\": [{\"name\": \"r\", \"kind\": \"replica\", \"path\": \"/r\"}]}]"
        ),
        "2:115: \(in0).authors[0].contexts[0].path: expected {name} or {path} in it, because each store needs its own; found \"/r\""
    ),
    .badBeyondSchema(
        "replicas that are stores",
        folder(
            "\"name\": \"{name}\", \"pattern\": \"*.db\", \"authors\": [{\"name\": \"A\", \"contexts\": [{\"name\": \"r\", \"kind\": \"replica\", \"path\": \"/srv/tenants/{name}.view.db\"}]}]"
        ),
        "2:118: \(in0).authors[0].contexts[0].path: the replica would be a store of this entry: it is in the folder, and its name fits the pattern. Put it elsewhere"
    ),
    .good("smallest", "{\"version\": 1.0, \"stores\": [{\"name\": \"s\", \"path\": \"s.db\"}]}"),
    .good("stop timeout", top("\"stopTimeout\": \"90s\"")),
    .good("stop timeout in seconds", top("\"stopTimeout\": 0.5")),
    .good("schema and levels", top("\"$schema\": \"x\", \"logLevel\": \"trace\", \"plugins\": []")),
    .good(
        "authors of every kind",
        store("\"authors\": [{\"name\": \"ü 😀\"}, {\"name\": \"B\", \"batch\": true, \"contexts\": []}]")),
    .good("a consumer that begins with what comes", author("\"startAt\": \"newest\"")),
    .good("a consumer that begins with the oldest", author("\"startAt\": \"oldest\", \"batch\": false")),
    .bad(
        "nowhere to begin", author("\"startAt\": \"latest\""),
        "2:12: stores[0].authors[0].startAt: expected \"oldest\" or \"newest\", found \"latest\""),
    .bad(
        "a number to begin at", author("\"startAt\": 5"),
        "2:12: stores[0].authors[0].startAt: expected \"oldest\" or \"newest\", found 5"),
    .bad(
        "a batch author begins nowhere", author("\"batch\": true, \"startAt\": \"newest\""),
        "2:16: stores[0].authors[0].startAt: a batch author only writes and has no position"),
    .badBeyondSchema(
        "a shell's home", "{\"version\": 1, \"stores\": [{\"name\": \"s\", \"path\": \"~/s.db\"}]}",
        "1:49: stores[0].path: expected a whole path: \"~\" is a shell's word for a home, write it out, or ${HOME}"
    ),
    .good("commits are gathered", author("\"batchWindow\": \"500ms\"")),
    .good("the longest window", author("\"batchWindow\": 3600")),
    .good("no window", author("\"batchWindow\": 0")),
    .badBeyondSchema(
        "too long a window", author("\"batchWindow\": \"61m\""),
        "2:16: stores[0].authors[0].batchWindow: expected a duration from 0 through 1h, found \"61m\""),
    .bad(
        "a batch author has no window", author("\"batch\": true, \"batchWindow\": 1"),
        "2:16: stores[0].authors[0].batchWindow: a batch author only writes and has no passes"),
    .good("an app that is the consumer's own", author("\"ownProcesses\": [\"Notes\", \"org.example.notes\"]")),
    .bad(
        "no app that is the consumer's own", author("\"ownProcesses\": \"Notes\""),
        "2:17: stores[0].authors[0].ownProcesses: expected a list of names of processes or apps, found \"Notes\""
    ),
    .bad(
        "a batch author receives nothing", author("\"batch\": true, \"ownProcesses\": [\"Notes\"]"),
        "2:16: stores[0].authors[0].ownProcesses: a batch author only writes and receives nothing"),
    .good(
        "every key of a store",
        store(
            """
            "entities": {"person": {"preserve": ["name"]}, "item": {}}, "unlistedAuthors": "ignore", "includingMirroring": true,\
            "mirroringAuthors": ["M"], "clean": {"strategy": "byNotification", "times": 1}, "poll": 0.5, "authors": []
            """)),
    .good("mirror", store("\"mirror\": true, \"clean\": {\"strategy\": \"byDuration\", \"seconds\": 5}")),
    .good(
        "a store of Core Data's",
        store(
            "\"source\": \"coreData\", \"authors\": [{\"name\": \"A\", \"contexts\": [{\"name\": \"a\", \"kind\": \"feed\", \"entities\": [\"Asset\"]}]}]"
        )),
    .good("a recorded store", store("\"source\": \"recorded\", \"entities\": {\"item\": {}}")),
    .good("no mirror", store("\"mirror\": false, \"entities\": {\"item\": {}}")),
    .good(
        "replica and feed",
        contexts(
            "{\"name\": \"a\", \"kind\": \"replica\", \"path\": \"/r\", \"entities\": [\"item\"]}, {\"name\": \"b\", \"kind\": \"feed\", \"window\": 1}"
        )),
    .good(
        "feeds with values",
        contexts(
            "{\"name\": \"a\", \"kind\": \"feed\", \"values\": true}, {\"name\": \"b\", \"kind\": \"feed\", \"values\": true, \"maximumValueBytes\": 33554432}, {\"name\": \"c\", \"kind\": \"feed\", \"values\": false}"
        )),
    .good(
        "a feed of some changes",
        contexts(
            "{\"name\": \"a\", \"kind\": \"feed\", \"entities\": [\"item\"], \"properties\": [\"n\"], \"where\": \"n > 5\"}"
        )),
    .bad(
        "a feed of columns of no entity",
        contexts("{\"name\": \"v\", \"kind\": \"feed\", \"properties\": [\"n\"]}"),
        "2:31: \(context0).properties: the columns of one entity are meant: name it by \"entities\" with one name"
    ),
    .bad(
        "a feed of rows of two entities",
        contexts(
            "{\"name\": \"v\", \"kind\": \"feed\", \"where\": \"1\", \"entities\": [\"item\", \"person\"]}"),
        "2:31: \(context0).where: the columns of one entity are meant: name it by \"entities\" with one name"),
    .good(
        "contexts of plugins",
        contexts(
            "{\"name\": \"a\", \"kind\": \"plugin\", \"plugin\": \"p\"}, {\"name\": \"b\", \"kind\": \"plugin\", \"plugin\": \"p\", \"entities\": [\"item\"]}"
        )),
    .good(
        "replica for a group",
        contexts(
            "{\"name\": \"a\", \"kind\": \"replica\", \"path\": \"/r\", \"mode\": \"0640\", \"group\": \"app\"}, {\"name\": \"b\", \"kind\": \"replica\", \"path\": \"/t\", \"mode\": \"664\"}"
        )),
    .good("every table", store("\"entities\": \"*\"")),
    .good(
        "every table, and columns of some",
        store("\"entities\": {\"*\": {}, \"person\": {\"preserve\": [\"name\"]}}")),
    .good(
        "every table, some in a context",
        store(
            "\"entities\": \"*\", \"authors\": [{\"name\": \"A\", \"contexts\": [{\"name\": \"a\", \"kind\": \"feed\", \"entities\": [\"later\"]}]}]"
        )),
    .good("lag", store("\"healthyLag\": \"10m\"")),
    .bad(
        "no lag", store("\"healthyLag\": 0"),
        "2:15: \(in0).healthyLag: expected a duration from 1ms through 36500d, found 0"),
    .good("what is younger is kept", store("\"clean\": {\"keep\": \"7d\"}")),
    .bad(
        "keep", store("\"clean\": {\"keep\": false}"),
        "2:19: \(in0).clean.keep: expected \(duration), found false"),
    .good("nothing is kept for its age", store("\"clean\": {\"keep\": 0}")),
    .bad(
        "a negative time to keep", store("\"clean\": {\"keep\": -1}"),
        "2:19: \(in0).clean.keep: expected a duration from 0 through 36500d, found -1"),
    .good("clean by hand only", store("\"clean\": {\"maximumDuration\": \"30d\"}")),
    .good(
        "clean by duration",
        store("\"clean\": {\"strategy\": \"byDuration\", \"seconds\": 604800, \"maximumDuration\": 2592000}")),

    // The document.
    .bad("list", "[]", "1:1: expected an object, found a list"),
    .bad(
        "empty object", "{}", "1:1: version: missing, expected 1, the version of the format",
        "1:1: stores: missing, expected at least one store, here or in a file of conf.d"),
    .bad(
        "version of another format", "{\n\"version\": 2, \"stores\": [{\"name\": \"s\", \"path\": \"/s.db\"}]}",
        "2:12: version: expected 1, the version of the format, found 2"),
    .bad(
        "version in quotes", "{\n\"version\": \"1\", \"stores\": [{\"name\": \"s\", \"path\": \"/s.db\"}]}",
        "2:12: version: expected 1, the version of the format, found \"1\""),
    .badBeyondSchema(
        "no store", "{\"version\": 1,\n \"stores\": []}",
        "2:12: stores: expected at least one store, here or in a file of conf.d, found an empty list"),
    .badBeyondSchema(
        "no stores", "{\"version\": 1}",
        "1:1: stores: missing, expected at least one store, here or in a file of conf.d"),
    .bad(
        "stores by name", "{\"version\": 1,\n \"stores\": {\"s\": {}}}",
        "2:12: stores: expected a list of stores, found an object"),
    .bad(
        "unknown key", top("\"pluigns\": []"),
        "2:1: pluigns: unknown key; did you mean \"plugins\"? Allowed: $schema, version, stores, plugins, logLevel, logFormat, stopTimeout"
    ),
    .bad(
        "unknown key like no other", top("\"colour \\n\": 1"),
        "2:1: [\"colour \\u{a}\"]: unknown key. Allowed: $schema, version, stores, plugins, logLevel, logFormat, stopTimeout"
    ),
    .bad("schema no text", top("\"$schema\": 1"), "2:12: $schema: expected a string, found 1"),
    .bad(
        "log level", top("\"logLevel\": \"warn\""),
        "2:13: logLevel: expected \"trace\", \"debug\", \"info\", \"notice\", \"warning\", \"error\", \"critical\" or \"off\", found \"warn\""
    ),
    .bad(
        "log level number", top("\"logLevel\": 3"),
        "2:13: logLevel: expected \"trace\", \"debug\", \"info\", \"notice\", \"warning\", \"error\", \"critical\" or \"off\", found 3"
    ),
    .bad("plugins text", top("\"plugins\": \"/p\""), "2:12: plugins: expected a list of paths, found \"/p\""),
    .bad(
        "plugin empty", top("\"plugins\": [\"\", 1]"),
        "2:13: plugins[0]: expected a path, found an empty string",
        "2:17: plugins[1]: expected a path, found 1"),
    .badBeyondSchema(
        "key twice", top("\"plugins\": [], \"plugins\": []"),
        "2:16: key \"plugins\" is given twice, first at 2:1"),

    // Stores.
    .bad("mirror no bool", store("\"mirror\": 1"), "2:11: \(in0).mirror: expected true or false, found 1"),
    .bad(
        "entities of a mirror", store("\"mirror\": true, \"entities\": {\"item\": {}}"),
        "2:17: \(in0).entities: a mirror has the entities of its source"),
    .bad(
        "source of another kind", store("\"source\": \"swiftData\""),
        "2:11: \(in0).source: expected \"recorded\" or \"coreData\", found \"swiftData\""),
    .bad(
        "changes of a store of Core Data's",
        store("\"source\": \"coreData\", \"entities\": {\"item\": {}}, \"clean\": {}"),
        "2:23: \(in0).entities: Core Data records what its model says; a store with \"source\": \"coreData\" is only read",
        "2:49: \(in0).clean: the app that owns the store decides what is deleted of its history"),
    .bad(
        "contexts of a store of Core Data's",
        store(
            "\"source\": \"coreData\", \"authors\": [{\"name\": \"A\", \"contexts\": [{\"name\": \"a\", \"kind\": \"replica\", \"path\": \"/r\"}, {\"name\": \"b\", \"kind\": \"feed\", \"values\": true}]}]"
        ),
        "2:76: \(in0).authors[0].contexts[0].kind: a replica copies recorded rows; of a store that Core Data writes a feed tells the changes",
        "2:140: \(in0).authors[0].contexts[1].values: rows are read only of a store in which historyd records"
    ),
    .bad(
        "store without anything", "{\"version\": 1, \"stores\": [\n{}]}",
        "2:1: stores[0].name: missing, expected a name",
        "2:1: stores[0].path: missing, expected a path, or a \"folder\" of stores"),
    .bad(
        "store no object", "{\"version\": 1, \"stores\": [\n1]}", "2:1: stores[0]: expected an object, found 1"),
    .bad(
        "name empty, path null", "{\"version\": 1, \"stores\": [{\"name\":\n\"\", \"path\": null}]}",
        "2:1: stores[0].name: expected a name, found an empty string",
        "2:13: stores[0].path: expected a path, found null"),
    .bad(
        "name with a control character",
        "{\"version\": 1, \"stores\": [{\"path\": \"/s\", \"name\":\n\"a\\tb\"}]}",
        "2:1: stores[0].name: expected a name without control characters, found \"a\\u{9}b\""),
    .bad(
        "path with NUL", "{\"version\": 1, \"stores\": [{\"name\": \"s\", \"path\":\n\"/a\\u0000\"}]}",
        "2:1: stores[0].path: expected a path without control characters, found \"/a\\u{0}\""),
    .badBeyondSchema(
        "store twice",
        "{\"version\": 1, \"stores\": [{\"name\": \"s\", \"path\": \"/a\"},\n{\"name\": \"s\", \"path\": \"/b\"}]}",
        "2:10: stores[1].name: store \"s\" is already given at FILE:1:36"),
    .badBeyondSchema(
        "one file for two stores",
        "{\"version\": 1, \"stores\": [{\"name\": \"s\", \"path\": \"/x/../a\"},\n{\"name\": \"t\", \"path\": \"//a\"}]}",
        "2:23: stores[1].path: the store's file \"/a\" is already given at FILE:1:49"),
    .bad(
        "unknown key of a store", store("\"author\": []"),
        "2:1: \(in0).author: unknown key; did you mean \"authors\"? \(storeKeys)"),
    .bad(
        "entities as a list", store("\"entities\": [\"person\"]"),
        "2:13: \(in0).entities: expected an object of entities by name, or \"*\" for every table, found a list"),
    .bad(
        "entities as another text", store("\"entities\": \"all\""),
        "2:13: \(in0).entities: expected an object of entities by name, or \"*\" for every table, found \"all\""
    ),
    .bad(
        "columns of every table", store("\"entities\": {\"*\": {\"preserve\": [\"name\"]}}"),
        "2:20: \(in0).entities[\"*\"].preserve: columns are preserved of an entity that is named"),
    .bad(
        "no entities", store("\"entities\": {}"),
        "2:13: \(in0).entities: expected at least one entity; leave the key out where \"historyctl track\" has named them"
    ),
    .bad(
        "entity with an empty name", store("\"entities\": {\"\": {}}"),
        "2:14: \(in0).entities[\"\"]: expected an entity's name, found \"\""),
    .bad(
        "entity no object", store("\"entities\": {\"person\": [\"name\"]}"),
        "2:24: \(in0).entities.person: expected an object, found a list"),
    .bad(
        "preserve text", store("\"entities\": {\"person\": {\"preserve\": \"name\"}}"),
        "2:37: \(in0).entities.person.preserve: expected a list of column names, found \"name\""),
    .bad(
        "preserve empty", store("\"entities\": {\"person\": {\"preserve\": []}}"),
        "2:37: \(in0).entities.person.preserve: expected a list of column names, found an empty list"),
    .bad(
        "preserve twice", store("\"entities\": {\"person\": {\"preserve\": [\"a\", \"a\"]}}"),
        "2:43: \(in0).entities.person.preserve[1]: name \"a\" is already given at FILE:2:38"),
    .bad(
        "preserve misspelt", store("\"entities\": {\"person\": {\"perserve\": []}}"),
        "2:25: \(in0).entities.person.perserve: unknown key; did you mean \"preserve\"? Allowed: preserve"),
    .good("log level off", top("\"logLevel\": \"off\"")),
    .good(
        "paused, and cleaning what nobody is listed for",
        store("\"autoStart\": false, \"unlistedAuthors\": \"ignore\", \"cleanUnlisted\": true")),
    .bad(
        "autoStart text", store("\"autoStart\": \"no\""),
        "2:14: \(in0).autoStart: expected true or false, found \"no\""),
    .bad(
        "cleanUnlisted of what is delivered", store("\"cleanUnlisted\": true"),
        "2:1: \(in0).cleanUnlisted: only with unlistedAuthors \"ignore\"; what is delivered is cleaned"),
    .bad(
        "cleanUnlisted text", store("\"unlistedAuthors\": \"ignore\", \"cleanUnlisted\": 1"),
        "2:47: \(in0).cleanUnlisted: expected true or false, found 1"),
    .bad(
        "unlistedAuthors", store("\"unlistedAuthors\": \"delver\""),
        "2:20: \(in0).unlistedAuthors: expected \"deliver\" or \"ignore\", found \"delver\"; did you mean \"deliver\"?"
    ),
    .bad(
        "includingMirroring", store("\"includingMirroring\": 1"),
        "2:23: \(in0).includingMirroring: expected true or false, found 1"),
    .bad(
        "mirroringAuthors", store("\"mirroringAuthors\": [\"M\", null]"),
        "2:27: \(in0).mirroringAuthors[1]: expected a name, found null"),

    // Durations.
    .bad("poll null", store("\"poll\": null"), "2:9: \(in0).poll: expected \(duration), found null"),
    .bad(
        "poll without a unit", store("\"poll\": \"5\""), "2:9: \(in0).poll: expected \(duration), found \"5\""),
    .bad(
        "poll zero", store("\"poll\": 0"),
        "2:9: \(in0).poll: expected a duration from 1ms through 36500d, found 0"),
    .bad(
        "poll negative", store("\"poll\": -1"),
        "2:9: \(in0).poll: expected a duration from 1ms through 36500d, found -1"),
    .bad(
        "poll for ever", store("\"poll\": 1e300"),
        "2:9: \(in0).poll: expected a duration from 1ms through 36500d, found 1e300"),
    .badBeyondSchema(
        "poll text zero", store("\"poll\": \"0s\""),
        "2:9: \(in0).poll: expected a duration from 1ms through 36500d, found \"0s\""),
    .badBeyondSchema(
        "poll text for ever", store("\"poll\": \"99999999999999999999999d\""),
        "2:9: \(in0).poll: expected a duration from 1ms through 36500d, found \"99999999999999999999999d\""),

    // Cleaning.
    .bad("clean text", store("\"clean\": \"none\""), "2:10: \(in0).clean: expected an object, found \"none\""),
    .bad(
        "strategy", store("\"clean\": {\"strategy\": \"byduration\", \"seconds\": 5}"),
        "2:23: \(in0).clean.strategy: expected \"none\", \"byDuration\" or \"byNotification\", found \"byduration\"; did you mean \"byDuration\"?"
    ),
    .bad(
        "byDuration without seconds", store("\"clean\": {\"strategy\": \"byDuration\"}"),
        "2:10: \(in0).clean.seconds: missing, expected \(duration), with strategy \"byDuration\""),
    .bad(
        "byDuration with times",
        store("\"clean\": {\"strategy\": \"byDuration\", \"seconds\": 1, \"times\": 2}"),
        "2:51: \(in0).clean.times: only strategy \"byNotification\" has it"),
    .bad(
        "byNotification with seconds", store("\"clean\": {\"strategy\": \"byNotification\", \"seconds\": 1}"),
        "2:10: \(in0).clean.times: missing, expected a number of notifications, with strategy \"byNotification\"",
        "2:41: \(in0).clean.seconds: only strategy \"byDuration\" has it"),
    .bad(
        "seconds without a strategy", store("\"clean\": {\"seconds\": 1}"),
        "2:11: \(in0).clean.seconds: only strategy \"byDuration\" has it"),
    .bad(
        "times zero", store("\"clean\": {\"strategy\": \"byNotification\", \"times\": 0}"),
        "2:50: \(in0).clean.times: expected a whole number from 1 through 1000000, found 0"),
    .bad(
        "times a fraction", store("\"clean\": {\"strategy\": \"byNotification\", \"times\": 1.5}"),
        "2:50: \(in0).clean.times: expected a whole number from 1 through 1000000, found 1.5"),
    .bad(
        "maximumDuration", store("\"clean\": {\"maximumDuration\": true}"),
        "2:30: \(in0).clean.maximumDuration: expected \(duration), found true"),

    // Authors and contexts.
    .bad(
        "authors text", store("\"authors\": \"A\""),
        "2:12: \(in0).authors: expected a list of authors, found \"A\""),
    .bad(
        "author text", store("\"authors\": [\"A\"]"), "2:13: \(in0).authors[0]: expected an object, found \"A\""
    ),
    .bad(
        "author without a name", store("\"authors\": [{}]"),
        "2:13: \(in0).authors[0].name: missing, expected a name"),
    .badBeyondSchema(
        "author of 256 bytes", store("\"authors\": [{\"name\": \"\(long)\"}]"),
        "2:22: \(in0).authors[0].name: expected at most 255 bytes, found 256"),
    .badBeyondSchema(
        "author twice", store("\"authors\": [{\"name\": \"A\"}, {\"name\": \"A\"}]"),
        "2:37: \(in0).authors[1].name: author \"A\" is already given at FILE:2:22"),
    .bad(
        "batch text", author("\"batch\": \"yes\""),
        "2:10: \(in0).authors[0].batch: expected true or false, found \"yes\""),
    .bad(
        "batch with contexts", author("\"batch\": true, \"contexts\": [{\"name\": \"v\", \"kind\": \"feed\"}]"),
        "2:16: \(in0).authors[0].contexts: a batch author only writes and has no contexts"),
    .bad(
        "unknown key of an author", author("\"context\": []"),
        "2:1: \(in0).authors[0].context: unknown key; did you mean \"contexts\"? Allowed: name, batch, contexts, startAt, batchWindow, ownProcesses"
    ),
    .bad(
        "context empty", contexts("{}"), "2:1: \(context0).name: missing, expected a name",
        "2:1: \(context0).kind: missing, expected \"replica\", \"feed\" or \"plugin\""),
    .bad(
        "context kind", contexts("{\"name\": \"v\", \"kind\": \"replicas\", \"path\": \"/r\"}"),
        "2:23: \(context0).kind: expected \"replica\", \"feed\" or \"plugin\", found \"replicas\"; did you mean \"replica\"?"
    ),
    .bad(
        "replica without a path", contexts("{\"name\": \"v\", \"kind\": \"replica\"}"),
        "2:1: \(context0).path: missing, expected the replica's path"),
    .bad(
        "feed with a path", contexts("{\"name\": \"v\", \"kind\": \"feed\", \"path\": \"/r\"}"),
        "2:31: \(context0).path: a feed has no path; only a replica has"),
    .bad(
        "feed with a window of nothing", contexts("{\"name\": \"v\", \"kind\": \"feed\", \"window\": 0}"),
        "2:41: \(context0).window: expected a whole number from 1 through 100000, found 0"),
    .bad(
        "values in words", contexts("{\"name\": \"v\", \"kind\": \"feed\", \"values\": \"all\"}"),
        "2:41: \(context0).values: expected true or false, found \"all\""),
    .bad(
        "cut without values",
        contexts("{\"name\": \"v\", \"kind\": \"feed\", \"maximumValueBytes\": 5}"),
        "2:31: \(context0).maximumValueBytes: only with \"values\": true; else there is nothing to cut"),
    .bad(
        "cut at nothing",
        contexts("{\"name\": \"v\", \"kind\": \"feed\", \"values\": true, \"maximumValueBytes\": 0}"),
        "2:68: \(context0).maximumValueBytes: expected a number of bytes, or text such as \"512MiB\" or \"4GiB\", found 0"
    ),
    .badBeyondSchema(
        "cut at more than fits",
        contexts("{\"name\": \"v\", \"kind\": \"feed\", \"values\": true, \"maximumValueBytes\": \"33MiB\"}"),
        "2:68: \(context0).maximumValueBytes: expected at most 33554432 bytes, found \"33MiB\""),
    .bad(
        "replica with values",
        contexts("{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/r\", \"values\": true}"),
        "2:48: \(context0).values: a replica has no values; only a feed has"),
    .bad(
        "feed with a mode", contexts("{\"name\": \"v\", \"kind\": \"feed\", \"mode\": \"0640\"}"),
        "2:31: \(context0).mode: a feed has no mode; only a replica has"),
    .bad(
        "feed with a group", contexts("{\"name\": \"v\", \"kind\": \"feed\", \"group\": \"app\"}"),
        "2:31: \(context0).group: a feed has no group; only a replica has"),
    .bad(
        "replica with a mode in words",
        contexts("{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/r\", \"mode\": \"g+r\"}"),
        "2:56: \(context0).mode: expected a mode such as \"0640\", of digits 0, 2, 4 and 6, with 6 for the owner, found \"g+r\""
    ),
    .bad(
        "replica that its owner may not write",
        contexts("{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/r\", \"mode\": \"0440\"}"),
        "2:56: \(context0).mode: expected a mode such as \"0640\", of digits 0, 2, 4 and 6, with 6 for the owner, found \"0440\""
    ),
    .bad(
        "replica with a window",
        contexts("{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/r\", \"window\": 1}"),
        "2:48: \(context0).window: a replica has no window; only a feed has"),
    .bad(
        "replica with large integers",
        contexts("{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/r\", \"largeIntegers\": \"text\"}"),
        "2:48: \(context0).largeIntegers: a replica has no largeIntegers; only a feed has"),
    .bad(
        "context of no plugin", contexts("{\"name\": \"v\", \"kind\": \"plugin\"}"),
        "2:1: \(context0).plugin: missing, expected the name of a plugin of a manifest"),
    .bad(
        "context of a plugin without a name",
        contexts("{\"name\": \"v\", \"kind\": \"plugin\", \"plugin\": \"\"}"),
        "2:43: \(context0).plugin: expected the name of a plugin of a manifest, found an empty string"),
    .bad(
        "context of a plugin with a path and a window",
        contexts(
            "{\"name\": \"v\", \"kind\": \"plugin\", \"plugin\": \"p\", \"path\": \"/r\", \"window\": 1, \"mode\": \"0640\", \"group\": \"g\"}"
        ),
        "2:48: \(context0).path: a plugin's context has no path; only a replica has",
        "2:62: \(context0).window: a plugin's context has no window; only a feed has",
        "2:75: \(context0).mode: a plugin's context has no mode; only a replica has",
        "2:91: \(context0).group: a plugin's context has no group; only a replica has"),
    .bad(
        "context of a plugin with values",
        contexts("{\"name\": \"v\", \"kind\": \"plugin\", \"plugin\": \"p\", \"values\": true}"),
        "2:48: \(context0).values: a plugin's context has no values; only a feed has"),
    .bad(
        "replica with a plugin",
        contexts("{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/r\", \"plugin\": \"p\"}"),
        "2:48: \(context0).plugin: a replica has no plugin; only a context of the kind \"plugin\" has"),
    .bad(
        "feed with a plugin", contexts("{\"name\": \"v\", \"kind\": \"feed\", \"plugin\": \"p\"}"),
        "2:31: \(context0).plugin: a feed has no plugin; only a context of the kind \"plugin\" has"),
    .badBeyondSchema(
        "context twice",
        contexts("{\"name\": \"v\", \"kind\": \"feed\"}, {\"name\": \"v\", \"kind\": \"feed\"}"),
        "2:41: stores[0].authors[0].contexts[1].name: context \"v\" is already given at FILE:2:10"),
    .badBeyondSchema(
        "one file for two replicas",
        contexts(
            "{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/r\"}, {\"name\": \"w\", \"kind\": \"replica\", \"path\": \"/./r\"}"
        ), "2:90: stores[0].authors[0].contexts[1].path: a replica's file \"/r\" is already given at FILE:2:42"),
    .badBeyondSchema(
        "replica in the store", contexts("{\"name\": \"v\", \"kind\": \"replica\", \"path\": \"/s.db\"}"),
        "2:42: \(context0).path: a replica cannot use a store's file; the store is at FILE:1:49"),
    .badBeyondSchema(
        "entity not tracked",
        contexts("{\"name\": \"v\", \"kind\": \"feed\", \"entities\": [\"persons\", \"item\", \"zebra\"]}"),
        "2:44: \(context0).entities[0]: unknown entity \"persons\"; did you mean \"person\"? Known: \"person\", \"item\"",
        "2:63: \(context0).entities[2]: unknown entity \"zebra\". Known: \"person\", \"item\""),
    .bad(
        "entities empty", contexts("{\"name\": \"v\", \"kind\": \"feed\", \"entities\": []}"),
        "2:43: \(context0).entities: expected a list of entities, found an empty list"),

    .bad(
        "several at once",
        """
        {
          "version": "one",
          "stores": [{
            "name": "contacts", "path": 5,
            "authors": [{ "name": "A" }, { "name": "A", "batch": "no" }],
            "cleaning": {}
          }],
          "logLevel": "loud"
        }
        """,
        "2:14: version: expected 1, the version of the format, found \"one\"",
        "4:33: stores[0].path: expected a path, found 5",
        "5:44: stores[0].authors[1].name: author \"A\" is already given at FILE:5:27",
        "5:58: stores[0].authors[1].batch: expected true or false, found \"no\"",
        "6:5: stores[0].cleaning: unknown key. \(storeKeys)",
        "8:15: logLevel: expected \"trace\", \"debug\", \"info\", \"notice\", \"warning\", \"error\", \"critical\" or \"off\", found \"loud\""
    ),
]

// MARK: Manifests

/// A manifest whose only plugin has these keys too.
private func plugin(_ keys: String) -> String {
    "{\"version\": 1, \"plugins\": [{\"name\": \"p\", \"command\": [\"/p\"], \"hooks\": [],\n\(keys)\n}]}"
}

/// A manifest whose only plugin has this command.
private func command(_ command: String) -> String {
    "{\"version\": 1, \"plugins\": [{\"name\": \"p\", \"hooks\": [], \"command\":\n\(command)\n}]}"
}

/// A manifest with the plugin `p`, which has these hooks.
private func hooks(_ hooks: String) -> String {
    "{\"version\": 1, \"plugins\": [{\"name\": \"p\", \"command\": [\"/p\"], \"hooks\": [\n\(hooks)\n]}]}"
}

private func observer(_ keys: String) -> String { hooks("{\"name\": \"h\", \"kind\": \"observer\", \(keys)}") }
private func merge(_ keys: String) -> String { hooks("{\"name\": \"m\", \"kind\": \"merge\", \(keys)}") }

private let commandExpected = "a list of a program's path and its arguments"
private let plainName = "a name of letters, digits, \".\", \"_\" and \"-\""
private let hook0 = "plugins[0].hooks[0]"
private let hookKeys =
    "Allowed: name, kind, entity, operation, store, consumer, before, calls, properties, where, values, maximumValueBytes"
private let operations = "\"insert\", \"update\" or \"delete\""
private let observersOnly = "only an observer has it; a merge hook is called for the whole batch"

/// Against a configuration with the stores `contacts` (consumers `MainApp` and `Widget`, batch
/// author `Importer`) and `notes` (consumer `Notes`, consumer `Importer`).
let manifestCorpus: [CorpusCase] = [
    .good("empty", "{\"$schema\": \"x\", \"version\": 1, \"plugins\": []}"),
    .good(
        "every key of a plugin",
        plugin(
            """
            "mode": "coprocess", "environment": {"A": "1", "b": ""}, "timeout": 0.5, "window": 1, "largeIntegers": "text", "onFailure": "skip",\
            "retry": {"attempts": 1, "initialDelay": "1ms", "maximumDelay": 604800}
            """)),
    .good("relative command", command("[\"./p\", \"\", \"--x\\ny\"]")),
    .good(
        "observers",
        hooks(
            """
            {"name": "a", "kind": "observer"}, {"name": "b", "kind": "observer", "entity": "*", "operation": "insert"},\
            {"name": "c", "kind": "observer", "entity": "person", "operation": ["insert", "delete"], "store": "contacts", "consumer": "MainApp"}
            """)),
    .good(
        "merge hooks",
        hooks(
            """
            {"name": "a", "kind": "merge"}, {"name": "b", "kind": "merge", "before": "p/c", "consumer": "Importer"}, {"name": "c", "kind": "merge", "before": "p/a"}
            """)),

    .good(
        "hooks with values",
        hooks(
            """
            {"name": "a", "kind": "merge", "values": true}, {"name": "b", "kind": "observer", "values": true, "maximumValueBytes": "64KiB"},\
            {"name": "c", "kind": "observer", "values": false}
            """)),

    .bad("text", "\"x\"", "1:1: expected an object, found \"x\""),
    .bad(
        "nothing", "{}", "1:1: version: missing, expected 1, the version of the format",
        "1:1: plugins: missing, expected a list of plugins"),
    .bad(
        "misspelt", "{\"version\": 1,\n\"plugin\": []}", "1:1: plugins: missing, expected a list of plugins",
        "2:1: plugin: unknown key; did you mean \"plugins\"? Allowed: $schema, version, plugins"),
    .bad(
        "plugins by name", "{\"version\": 1, \"plugins\":\n{}}",
        "2:1: plugins: expected a list of plugins, found an object"),
    .bad(
        "plugin empty", "{\"version\": 1, \"plugins\": [\n{}, 1]}",
        "2:1: plugins[0].name: missing, expected \(plainName)",
        "2:1: plugins[0].command: missing, expected \(commandExpected)",
        "2:1: plugins[0].hooks: missing, expected a list of hooks",
        "2:5: plugins[1]: expected an object, found 1"),
    .bad(
        "plugin name",
        "{\"version\": 1, \"plugins\": [{\"command\": [\"/p\"], \"hooks\": [], \"name\":\n\"a/b\"}]}",
        "2:1: plugins[0].name: expected \(plainName), found \"a/b\""),
    .bad(
        "plugin name empty",
        "{\"version\": 1, \"plugins\": [{\"command\": [\"/p\"], \"hooks\": [], \"name\":\n\"\"}]}",
        "2:1: plugins[0].name: expected \(plainName), found \"\""),
    .badBeyondSchema(
        "plugin twice",
        "{\"version\": 1, \"plugins\": [{\"name\": \"p\", \"command\": [\"/p\"], \"hooks\": []},\n{\"name\": \"p\", \"command\": [\"/p\"], \"hooks\": []}]}",
        "2:10: plugins[1].name: plugin \"p\" is already given at FILE:1:37"),
    .bad(
        "unknown key of a plugin", plugin("\"enviroment\": {}"),
        "2:1: plugins[0].enviroment: unknown key; did you mean \"environment\"? Allowed: name, command, mode, environment, timeout, window, largeIntegers, retry, onFailure, hooks"
    ),

    .bad(
        "command text", command("\"/p --x\""),
        "2:1: plugins[0].command: expected \(commandExpected), found \"/p --x\""),
    .bad(
        "command empty", command("[]"),
        "2:1: plugins[0].command: expected \(commandExpected), found an empty list"),
    .bad(
        "command by search", command("[\"sh\"]"),
        "2:2: plugins[0].command[0]: expected an absolute path, or a path with a slash, relative to the manifest's folder, found \"sh\""
    ),
    .bad(
        "command of nothing", command("[\"\"]"),
        "2:2: plugins[0].command[0]: expected an absolute path, or a path with a slash, relative to the manifest's folder, found an empty string"
    ),
    .bad(
        "argument number", command("[\"/p\", 5, \"\\u0000\"]"),
        "2:8: plugins[0].command[1]: expected a string, found 5",
        "2:11: plugins[0].command[2]: expected an argument without NUL"),
    .bad(
        "mode", plugin("\"mode\": \"co-process\""),
        "2:9: plugins[0].mode: expected \"oneshot\" or \"coprocess\", found \"co-process\"; did you mean \"coprocess\"?"
    ),
    .bad(
        "environment", plugin("\"environment\": [\"A=1\"]"),
        "2:16: plugins[0].environment: expected an object of texts by name, found a list"),
    .good("a secret", plugin("\"environment\": {\"TOKEN\": {\"credential\": \"api.token-1\"}}")),
    .bad(
        "a secret that is none",
        plugin("\"environment\": {\"A\": {\"credential\": \"../x\"}, \"B\": {\"file\": \"x\"}}"),
        "2:37: plugins[0].environment.A.credential: expected a credential's name, of letters, digits, \".\", \"_\" and \"-\", found \"../x\"",
        "2:51: plugins[0].environment.B.credential: missing, expected a credential's name, of letters, digits, \".\", \"_\" and \"-\"",
        "2:52: plugins[0].environment.B.file: unknown key. Allowed: credential"),
    .bad(
        "environment's values, which are not repeated",
        plugin("\"environment\": {\"TOKEN\": 4711, \"A=\": \"\", \"\": \"\", \"N\": \"a\\u0000\"}"),
        "2:26: plugins[0].environment.TOKEN: expected a text (a number in quotes, too) or an object such as {\"credential\": \"name\"}",
        "2:32: plugins[0].environment[\"A=\"]: expected a variable's name, not empty and without \"=\"",
        "2:42: plugins[0].environment[\"\"]: expected a variable's name, not empty and without \"=\"",
        "2:55: plugins[0].environment.N: expected a variable without NUL"),
    .bad(
        "timeout", plugin("\"timeout\": \"soon\""),
        "2:12: plugins[0].timeout: expected \(duration), found \"soon\""),
    .bad(
        "no window", plugin("\"window\": 0"),
        "2:11: plugins[0].window: expected a whole number from 1 through 64, found 0"),
    .bad(
        "large integers as blobs", plugin("\"largeIntegers\": \"blob\""),
        "2:18: plugins[0].largeIntegers: expected \"number\" or \"text\", found \"blob\""),
    .bad("retry number", plugin("\"retry\": 5"), "2:10: plugins[0].retry: expected an object, found 5"),
    .bad(
        "no attempts", plugin("\"retry\": {\"attempts\": 0}"),
        "2:23: plugins[0].retry.attempts: expected a whole number from 1 through 1000000, found 0"),
    .bad(
        "delay too long", plugin("\"retry\": {\"initialDelay\": 604801}"),
        "2:27: plugins[0].retry.initialDelay: expected a duration from 1ms through 7d, found 604801"),
    .badBeyondSchema(
        "a first delay beyond the default of the longest", plugin("\"retry\": {\"initialDelay\": \"1m\"}"),
        "2:27: plugins[0].retry.initialDelay: expected at most the maximumDelay, which is 30s if it is not given, found \"1m\""
    ),
    .badBeyondSchema(
        "delays exchanged", plugin("\"retry\": {\"initialDelay\": 2, \"maximumDelay\": 1}"),
        "2:46: plugins[0].retry.maximumDelay: expected at least the initialDelay, found 1"),
    .bad(
        "retry misspelt", plugin("\"retry\": {\"attempt\": 1}"),
        "2:11: plugins[0].retry.attempt: unknown key; did you mean \"attempts\"? Allowed: attempts, initialDelay, maximumDelay"
    ),
    .bad(
        "onFailure", plugin("\"onFailure\": \"stop\""),
        "2:14: plugins[0].onFailure: expected \"hold\" or \"skip\", found \"stop\""),

    .bad(
        "hooks by name",
        "{\"version\": 1, \"plugins\": [{\"name\": \"p\", \"command\": [\"/p\"], \"hooks\":\n{}}]}",
        "2:1: plugins[0].hooks: expected a list of hooks, found an object"),
    .bad(
        "hook empty", hooks("{}, null"), "2:1: \(hook0).name: missing, expected \(plainName)",
        "2:1: \(hook0).kind: missing, expected \"observer\" or \"merge\"",
        "2:5: plugins[0].hooks[1]: expected an object, found null"),
    .bad(
        "hook name", hooks("{\"name\": \"new people\", \"kind\": \"observer\"}"),
        "2:10: \(hook0).name: expected \(plainName), found \"new people\""),
    .badBeyondSchema(
        "hook twice",
        hooks("{\"name\": \"h\", \"kind\": \"observer\"}, {\"name\": \"h\", \"kind\": \"merge\"}"),
        "2:45: plugins[0].hooks[1].name: hook \"h\" is already given at FILE:2:10"),
    .bad(
        "hook kind", hooks("{\"name\": \"h\", \"kind\": \"Observer\", \"entity\": \"e\"}"),
        "2:23: \(hook0).kind: expected \"observer\" or \"merge\", found \"Observer\"; did you mean \"observer\"?"
    ),
    .bad(
        "unknown key of a hook", observer("\"entitys\": \"person\""),
        "2:35: \(hook0).entitys: unknown key; did you mean \"entity\"? \(hookKeys)"),
    .bad(
        "entity list", observer("\"entity\": [\"person\"]"),
        "2:45: \(hook0).entity: expected an entity's name, or \"*\" for all, found a list"),
    .bad(
        "operation", observer("\"operation\": \"inserts\""),
        "2:48: \(hook0).operation: expected \(operations), found \"inserts\"; did you mean \"insert\"?"),
    .bad(
        "operation in a list", observer("\"operation\": [\"insert\", \"*\"]"),
        "2:59: \(hook0).operation[1]: expected \(operations), found \"*\""),
    .bad(
        "operations none", observer("\"operation\": []"),
        "2:48: \(hook0).operation: expected one or more of \(operations), found an empty list"),
    .bad(
        "operation number", observer("\"operation\": 1"),
        "2:48: \(hook0).operation: expected \(operations), found 1"),
    .bad(
        "observer before", observer("\"before\": \"p/x\""),
        "2:35: \(hook0).before: only a merge hook has it; observers are called in the order of the manifests"),
    .good(
        "only some columns",
        observer("\"entity\": \"t\", \"properties\": [\"a\", \"b\"], \"calls\": \"transaction\"")),
    .good(
        "only some rows, at once",
        observer("\"entity\": \"t\", \"where\": \"a = 'x' AND b > 5\", \"calls\": \"batch\"")),
    .bad(
        "columns of every entity", observer("\"entity\": \"*\", \"properties\": [\"a\"]"),
        "2:50: \(hook0).properties: the columns of one entity are meant: name it by \"entity\""),
    .bad(
        "columns of inserts", observer("\"entity\": \"t\", \"operation\": \"insert\", \"properties\": [\"a\"]"),
        "2:73: \(hook0).properties: only an update changes columns, and the hook is not called for updates"),
    .badBeyondSchema(
        "two expressions", observer("\"entity\": \"t\", \"where\": \"1) OR (2\""),
        "2:59: \(hook0).where: expected an SQL expression over the columns of a row, such as \"status = 'paid'\": it is more than one expression"
    ),
    .bad(
        "calls for what there is not", observer("\"calls\": \"minute\""),
        "2:44: \(hook0).calls: expected \"transaction\" or \"batch\", found \"minute\""),
    .bad(
        "a merge hook of some rows", merge("\"where\": \"1\""),
        "2:32: \(hook0).where: only an observer has it; a merge hook is called for the whole batch"),
    .bad(
        "cut without values", observer("\"values\": false, \"maximumValueBytes\": \"1MiB\""),
        "2:52: \(hook0).maximumValueBytes: only with \"values\": true; else there is nothing to cut"),
    .bad(
        "cut at a unit that there is not", observer("\"values\": true, \"maximumValueBytes\": \"1MB\""),
        "2:72: \(hook0).maximumValueBytes: expected a number of bytes, or text such as \"512MiB\" or \"4GiB\", found \"1MB\""
    ),
    .bad(
        "merge hook with an observer's keys", merge("\"entity\": \"*\", \"operation\": \"insert\""),
        "2:32: \(hook0).entity: \(observersOnly)", "2:47: \(hook0).operation: \(observersOnly)"),
    .badBeyondSchema(
        "unknown store", observer("\"store\": \"contact\""),
        "2:44: \(hook0).store: unknown store \"contact\"; did you mean \"contacts\"? Known: \"contacts\", \"notes\""
    ),
    .bad("store number", observer("\"store\": 1"), "2:44: \(hook0).store: expected a name, found 1"),
    .badBeyondSchema(
        "unknown consumer", observer("\"consumer\": \"Main\""),
        "2:47: \(hook0).consumer: unknown consumer \"Main\". Known: \"MainApp\", \"Widget\", \"Notes\", \"Importer\""
    ),
    .badBeyondSchema(
        "consumer of another store", observer("\"consumer\": \"Notes\", \"store\": \"contacts\""),
        "2:47: \(hook0).consumer: unknown consumer \"Notes\". Known: \"MainApp\", \"Widget\""),
    .badBeyondSchema(
        "batch author as consumer", observer("\"consumer\": \"Importer\", \"store\": \"contacts\""),
        "2:47: \(hook0).consumer: expected a consumer; \"Importer\" is a batch author, which receives nothing"
    ),
    .badBeyondSchema(
        "unknown before",
        hooks(
            "{\"name\": \"m\", \"kind\": \"merge\", \"before\": \"p/mm\"}, {\"name\": \"mn\", \"kind\": \"merge\"}"
        ), "2:42: \(hook0).before: unknown merge hook \"p/mm\"; did you mean \"p/mn\"? Known: \"p/mn\""),
    .badBeyondSchema(
        "before and nobody there", merge("\"before\": \"dedup\""),
        "2:42: \(hook0).before: unknown merge hook \"dedup\". There is none"),
    .badBeyondSchema(
        "before an observer",
        hooks(
            "{\"name\": \"m\", \"kind\": \"merge\", \"before\": \"p/o\"}, {\"name\": \"o\", \"kind\": \"observer\"}"
        ), "2:42: \(hook0).before: expected a merge hook; \"p/o\" is an observer"),
    .badBeyondSchema(
        "before itself", merge("\"before\": \"p/m\""),
        "2:42: \(hook0).before: a hook cannot be before itself"),
    .badBeyondSchema(
        "before in a circle",
        hooks(
            """
            {"name": "in", "kind": "merge", "before": "p/a"}, {"name": "a", "kind": "merge", "before": "p/b"}, {"name": "b", "kind": "merge", "before": "p/a"}
            """),
        "2:92: plugins[0].hooks[1].before: hooks are before each other in a circle: p/a before p/b before p/a"),
    .badBeyondSchema(
        "two circles",
        hooks(
            """
            {"name": "a", "kind": "merge", "before": "p/a"},
            {"name": "b", "kind": "merge", "before": "p/c"}, {"name": "c", "kind": "merge", "before": "p/b"}
            """), "2:42: \(hook0).before: a hook cannot be before itself",
        "3:42: plugins[0].hooks[1].before: hooks are before each other in a circle: p/b before p/c before p/b"),
]
