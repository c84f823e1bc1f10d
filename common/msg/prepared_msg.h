/* prepared_msg.h - what a supervisor and a prepared process (supervisor/proc/prepared.h) say to
 * each other, on a socket of type SOCK_SEQPACKET: AGENT_FD_SHARED of the prepared process.
 *
 *   supervisor -> prepared   struct prepared_fork, with the new process's descriptors as
 *                            SCM_RIGHTS, in the order of enum prepared_fd
 *   new process -> supervisor   PREPARED_BORN, whose SCM_CREDENTIALS have its pid; or, if a fork
 *                            failed, the process that failed sends PREPARED_FAILED
 *   supervisor -> parent of the new process   any byte: the supervisor knows the pid, so that
 *                            the parent may exit. A request for the next process comes only
 *                            after this
 *
 * The prepared process forks a child, and that the new process; when the child exits, the
 * supervisor, as the nearest subreaper, becomes its parent. The new process waits until
 * getppid() says so, asks for SIGKILL at its parent's death, begins a session of its own, and
 * goes on as any agent: it says hello on AGENT_FD_OUT, and reads requests from AGENT_FD_IN.
 *
 * What it says in hello, but for its pid, is what brood-agent said in the prepared process's
 * name: that notification stands before the request `prepare` in AGENT_FD_REQUEST.
 */
#ifndef COMMON_MSG_PREPARED_MSG_H
#define COMMON_MSG_PREPARED_MSG_H

#include <stdint.h>

enum prepared_fd {
    PREPARED_FD_TEXT, /* becomes stdout and stderr */
    PREPARED_FD_IN,   /* becomes AGENT_FD_IN */
    PREPARED_FD_OUT,
    PREPARED_FD_BLOCK,
    PREPARED_FD_LOG, /* the last one, if the run has a log */
    PREPARED_FD_COUNT
};

struct prepared_fork { /* in the machine's order of bytes */
    uint32_t parent;   /* pid of the supervisor */
    uint32_t n_fds;
};

enum { PREPARED_FAILED = 0, PREPARED_BORN = 1 };

#endif
