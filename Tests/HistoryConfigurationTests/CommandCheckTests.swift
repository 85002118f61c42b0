import Foundation
import TestSupport
import Testing

@testable import HistoryConfiguration

/// Which commands can be started.
@Suite struct CommandCheckTests {
    @Test(arguments: ["/bin/sh", "/usr/bin/env"]) func programsAre(_ path: String) {
        #expect(CommandCheck.problem(of: path) == nil)
    }

    @Test func scriptsThatNameTheirInterpreterAre() throws {
        let folder = try TemporaryFolder()
        for (number, line) in ["#!/bin/sh\n", "#! /bin/sh -e\n", "#!/usr/bin/env sh\nrest", "#!/bin/sh"]
            .enumerated()
        {
            try folder.write("\(number)", line, executable: true)
            #expect(CommandCheck.problem(of: folder.file("\(number)")) == nil, "\(line)")
        }
    }

    @Test(
        arguments: [
            ("print(1)\n", "names its interpreter"), ("", "names its interpreter"),
            ("#!/no/such/interpreter\n", "names the interpreter \"/no/such/interpreter\""),
            ("#!/bin/sh\r\n", "names the interpreter \"/bin/sh"),
        ])
    func othersAreNot(_ text: String, _ problem: String) throws {
        let folder = try TemporaryFolder()
        try folder.write("script", text, executable: true)
        let found = CommandCheck.problem(of: folder.file("script"))
        #expect(found?.contains(problem) == true, "\(found ?? "nothing")")
    }

    @Test func whatIsMissingOrMayNotBeExecutedIsNot() throws {
        let folder = try TemporaryFolder()
        try folder.write("plain", "#!/bin/sh\n")
        #expect(CommandCheck.problem(of: folder.file("plain"))?.contains("chmod +x") == true)
        #expect(CommandCheck.problem(of: folder.file("nothing"))?.contains("No such file") == true)
        #expect(CommandCheck.problem(of: folder.path)?.contains("is not a program") == true)
    }
}
