/* signal_ignored.h - signals that whoever started this process wants ignored. */
#ifndef SUPERVISOR_PROC_SIGNAL_IGNORED_H
#define SUPERVISOR_PROC_SIGNAL_IGNORED_H

/* Is it SIGHUP or SIGINT (what nohup, and shells without job control, have their children
 * ignore), and ignored? To be asked before a handler is there. */
int signal_is_ignored(int signum);

#endif
