/* signals.h - names of signals, and the signals that stop a run. */
#ifndef SUPERVISOR_PROC_SIGNALS_H
#define SUPERVISOR_PROC_SIGNALS_H

#include <signal.h>
#include <stddef.h>

#define SIGNAL_NAME_BYTES 24

/* The name for messages, the journal and `brood status`: "SIGKILL"; "SIG34" for a signal
 * without a name. Returns ret. Allocates nothing. */
const char *signal_name(int signum, char ret[SIGNAL_NAME_BYTES]);

/* Whether the signal is SIGHUP or SIGINT and is ignored: nohup, and shells without job
 * control, start their children so. Call before a handler is installed. */
int signal_is_ignored(int signum);

/* Blocks the n signals. Returns a descriptor (signalfd, non-blocking, close-on-exec) from which
 * they are read; -1: there are no descriptors. */
int signals_watch(const int *signums, size_t n);

/* The signals that stop a run: SIGINT, SIGTERM and SIGHUP, without ignored ones. A supervisor
 * has them blocked for its whole life (keeper.h), so also in every thread that it starts, and
 * reads them from a descriptor: none of them can end it by its default action, however long
 * it loads or ends a run. */
void stop_signals_get(sigset_t *ret);
/* A descriptor (signalfd, non-blocking, close-on-exec) that is readable while SIGINT or
 * SIGTERM is pending. -1: they are not blocked, or there are no descriptors. */
int stop_signals_watch(void);
/* 1 if SIGINT or SIGTERM is pending. */
int stop_signal_is_pending(void);

#endif
