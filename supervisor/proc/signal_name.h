/* signal_name.h - a signal as messages, the journal and `brood status` name it. */
#ifndef SUPERVISOR_PROC_SIGNAL_NAME_H
#define SUPERVISOR_PROC_SIGNAL_NAME_H

#define SIGNAL_NAME_BYTES 24

/* "SIGKILL"; "SIG34" where it has no name. Returns ret. Allocates nothing. */
const char *signal_name(int signum, char ret[SIGNAL_NAME_BYTES]);

#endif
