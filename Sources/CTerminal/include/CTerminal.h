#ifndef CTERMINAL_H
#define CTERMINAL_H

/* Has the terminal of standard input give each key as it is pressed, without showing it, on a screen of its own. What
 * was there before is back at cterminal_give_back(), and where a signal ends the process. Gives 0, or -1 if standard
 * input or output is no terminal. */
int cterminal_take(void);
void cterminal_give_back(void);

#endif
