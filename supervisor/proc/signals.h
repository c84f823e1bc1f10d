/* signals.h - names of signals, and signals that this process was started to ignore. */
#ifndef SUPERVISOR_PROC_SIGNALS_H
#define SUPERVISOR_PROC_SIGNALS_H

#define SIGNAL_NAME_BYTES 24

/* The name for messages, the journal and `brood status`: "SIGKILL"; "SIG34" where it has
 * none. Returns ret. Allocates nothing. */
const char *signal_name(int signum, char ret[SIGNAL_NAME_BYTES]);

/* Whether it is SIGHUP or SIGINT (which nohup, and shells without job control, make their
 * children ignore), and ignored. To be called before a handler is installed. */
int signal_is_ignored(int signum);

#endif
