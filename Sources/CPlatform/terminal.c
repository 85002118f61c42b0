#include "CPlatform.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;

static void say(const char *text) {
    for (size_t length = strlen(text); length > 0;) {
        ssize_t count = write(STDOUT_FILENO, text, length);
        if (count < 0) return; /* if the terminal is closed, the next read reports it */
        text += count;
        length -= (size_t)count;
    }
}

void cplatform_give_back_terminal(void) {
    say("\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
}

/* A signal handler may call write() and tcsetattr(): signal-safety(7). */
static void end(int signal) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    cplatform_give_back_terminal();
    sigaction(signal, &action, NULL);
    raise(signal);
}

static void interrupt(int signal) { (void)signal; }

int cplatform_take_terminal(void) {
    static const int endings[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    struct termios raw;
    struct sigaction action = {.sa_handler = end}, before;
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &saved) != 0) return -1;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (sigaction(endings[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(endings[i], &action, NULL);
    action.sa_handler = interrupt; /* interrupts the wait for a key */
    sigaction(SIGWINCH, &action, NULL);
    raw = saved;
    /* Ctrl-C is delivered as a key, too. */
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    say("\033[?1049h\033[?25l");
    return 0;
}
