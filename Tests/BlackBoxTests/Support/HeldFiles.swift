import Foundation
import TestSupport

/// A library, loaded into the daemon before all others, that lets calls of the system wait: writes and syncs of files
/// whose path contains a text, and starts of programs whose path does.
///
/// Each call waits as long as there is a file `hold` in the workbench whose content is part of the path. The file
/// `hold-paths` does the same for calls that only follow a path.
enum HeldFiles {
    private static let source = #"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/inotify.h>
        #include <sys/stat.h>
        #include <sys/types.h>
        #include <unistd.h>

        static int isHeldBy(const char *variable, const char *path) {
            char held[512];
            const char *hold = getenv(variable);
            int file = hold ? open(hold, O_RDONLY | O_CLOEXEC) : -1;
            if (file < 0) return 0;
            ssize_t count = read(file, held, sizeof held - 1);
            close(file);
            if (count <= 0) return 0;
            held[count] = 0;
            return strstr(path, held) != NULL;
        }

        static int isHeld(const char *path) { return isHeldBy("HOLD_FILE", path); }

        static void waitForNoting(const char *path, int log) {
            int isNoted = 0;
            while (isHeld(path)) {
                if (!isNoted) dprintf(log, "held: %s\n", path);
                isNoted = 1;
                usleep(2000);
            }
        }

        static void waitFor(const char *path) { waitForNoting(path, STDERR_FILENO); }

        static void waitForFile(int file) {
            char link[64], path[4096];
            const char *hold = getenv("HOLD_FILE");
            if (!hold || access(hold, F_OK) != 0) return;
            snprintf(link, sizeof link, "/proc/self/fd/%d", file);
            ssize_t count = readlink(link, path, sizeof path - 1);
            if (count <= 0 || path[0] != '/') return;
            path[count] = 0;
            waitFor(path);
        }

        #define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

        static void follow(const char *path) {
            int error = errno, isNoted = 0;
            while (isHeldBy("HOLD_PATHS", path)) {
                if (!isNoted) dprintf(STDERR_FILENO, "held: %s\n", path);
                isNoted = 1;
                usleep(2000);
            }
            errno = error;
        }

        int stat(const char *path, struct stat *status) { REAL(stat); follow(path); return real(path, status); }
        int lstat(const char *path, struct stat *status) { REAL(lstat); follow(path); return real(path, status); }
        int inotify_add_watch(int inotify, const char *path, uint32_t mask) {
            REAL(inotify_add_watch);
            follow(path);
            return real(inotify, path, mask);
        }
        int fsync(int file) { REAL(fsync); waitForFile(file); return real(file); }
        int fdatasync(int file) { REAL(fdatasync); waitForFile(file); return real(file); }
        ssize_t write(int file, const void *bytes, size_t count) {
            REAL(write);
            waitForFile(file);
            return real(file, bytes, count);
        }
        ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
            REAL(pwrite);
            waitForFile(file);
            return real(file, bytes, count, offset);
        }
        ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
            REAL(pwrite64);
            waitForFile(file);
            return real(file, bytes, count, offset);
        }
        // In the child that vfork(2) has made, whose parent waits until the program begins.
        int execve(const char *path, char *const *arguments, char *const *environment) {
            char log[64];
            REAL(execve);
            // Its own is the plugin's already.
            snprintf(log, sizeof log, "/proc/%d/fd/2", getppid());
            int file = open(log, O_WRONLY | O_APPEND | O_CLOEXEC);
            waitForNoting(path, file);
            close(file);
            return real(path, arguments, environment);
        }
        """#

    /// - Returns: The environment of a daemon whose calls wait.
    static func environment(_ bench: Workbench) async throws -> [String: String] {
        try await PreloadedLibrary.environment("hold", source, bench)
            .merging(["HOLD_FILE": bench.path("hold"), "HOLD_PATHS": bench.path("hold-paths")]) { $1 }
    }
}

extension Workbench {
    /// Lets calls wait from now on.
    func hold(_ part: String) throws { try hold(part, in: "hold") }
    func release() throws { try FileManager.default.removeItem(atPath: path("hold")) }

    /// Lets calls wait that only follow a path.
    func holdPaths(_ part: String) throws { try hold(part, in: "hold-paths") }
    func releasePaths() throws { try FileManager.default.removeItem(atPath: path("hold-paths")) }

    private func hold(_ part: String, in file: String) throws {
        // As a whole, at once: the library reads it all the time.
        try folder.write("\(file).new", part)
        try FileManager.default.moveItem(atPath: path("\(file).new"), toPath: path(file))
    }
}
