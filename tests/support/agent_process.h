/* agent_process.h - a brood-agent driven over pipes, as the supervisor would. */
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
/* The same with another program of the build directory: "tests/support/test_agent". */
void agent_process_start_program(struct agent_process *p, const char *program,
                                 const char *name, int block_fd, int log_fd);
/* Closes the pipes, and waits; the wait status. Kills it after a deadline. */
int agent_process_end(struct agent_process *p);

/* Begins a request; pack its params as one map, then call. */
struct msg_out *agent_process_request(struct agent_process *p, const char *method);
/* Sends it and reads the response into p->reply: 0, or the error it carries. */
int agent_process_call(struct agent_process *p);
/* The next message, with a deadline. 1, 0 at end of file. */
int agent_process_read(struct agent_process *p);
/* Bytes as they are. */
void agent_process_write(struct agent_process *p, const void *data, size_t len);
/* What it wrote to stderr, up to its end. */
void agent_process_stderr(struct agent_process *p, char *buf, size_t size);

/* `configure` for agent_<self> of `n` agents of 18 observations and five moves. */
int agent_process_configure(struct agent_process *p, const char *config, size_t n,
                            size_t self, int restored);
/* Its params, with a mode (common/numerics/numerics.h). */
void agent_process_pack_configure(struct msg_out *o, const char *config, size_t n,
                                  size_t self, int restored, const char *numerics);
/* A sparse block file as the supervisor makes it. */
int agent_process_block(void);

#endif
