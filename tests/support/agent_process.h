/* agent_process.h - drives a brood-agent over pipes, as the supervisor would. */
#ifndef TESTS_SUPPORT_AGENT_PROCESS_H
#define TESTS_SUPPORT_AGENT_PROCESS_H

#include "common/msg/frame.h"
#include "common/msg/msg.h"

#include <sys/types.h>

struct agent_process {
    pid_t pid;
    int to, from;  /* our ends of its pipes */
    int stderr_fd; /* read end of its captured stderr */
    struct frame_reader reader;
    struct msg_out out;
    struct msg reply; /* the newest message */
    uint32_t id;
};

/* block_fd, log_fd: -1 for none; borrowed. Ends the program if it cannot be started. */
void agent_process_start(struct agent_process *p, const char *name, int block_fd,
                         int log_fd);
/* The same with another program of the build directory, e.g.
 * "tests/support/test_agent". */
void agent_process_start_program(struct agent_process *p, const char *program,
                                 const char *name, int block_fd, int log_fd);
/* Closes the pipes, waits for the exit and returns the wait status. Kills the process
 * after a deadline. */
int agent_process_end(struct agent_process *p);

/* Begins a request; pack its params as one map, then call. */
struct msg_out *agent_process_request(struct agent_process *p, const char *method);
/* Sends the request and reads the response into p->reply. 0, or the error code in it. */
int agent_process_call(struct agent_process *p);
/* Reads the next message, with a deadline. 1, or 0 at end of file. */
int agent_process_read(struct agent_process *p);
/* Writes raw bytes to the agent's input. */
void agent_process_write(struct agent_process *p, const void *data, size_t len);
/* Reads all of the agent's stderr. */
void agent_process_stderr(struct agent_process *p, char *buf, size_t size);

/* `configure` for agent_<self> of `n` agents of 18 observations and five moves. */
int agent_process_configure(struct agent_process *p, const char *config, size_t n,
                            size_t self, int restored);
/* The params of `configure`; numerics is a mode (common/numerics/numerics.h). */
void agent_process_pack_configure(struct msg_out *o, const char *config, size_t n,
                                  size_t self, int restored, const char *numerics);
/* A sparse file for a block, as the supervisor makes it. */
int agent_process_block(void);

#endif
