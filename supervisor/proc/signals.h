/* signals.h - names of signals, and signals that were ignored when this process started. */
#ifndef SUPERVISOR_PROC_SIGNALS_H
#define SUPERVISOR_PROC_SIGNALS_H

#define SIGNAL_NAME_BYTES 24

/* The name for messages, the journal and `brood status`: "SIGKILL"; "SIG34" for a signal
 * without a name. Returns ret. Allocates nothing. */
const char *signal_name(int signum, char ret[SIGNAL_NAME_BYTES]);

/* Whether the signal is SIGHUP or SIGINT and is ignored: nohup, and shells without job
 * control, start their children so. Call before a handler is installed. */
int signal_is_ignored(int signum);

#endif
