/* worker_remote.h - links to workers of another machine, through the node there: the second
 * set of operations of worker_link.h.
 *
 * A site is a place for a node: while one is connected, its workers' processes run there;
 * when it is lost, all of them have ended, and the next node in that place begins with
 * nothing. The owner (cluster.h) brings nodes and takes them away.
 *
 * Exit     of a lost process is reported when the owner says so (remote_site_release): when
 *          another node is in place, so that the next start finds it.
 * Block    is lost with the node: worker_link.is_block_lost makes the table put the newest
 *          snapshot into it before the next start.
 * Calls    no operation waits for the node. What comes from it is queued, and delivered in
 *          order by remote_site_deliver, from the loop.
 * Files    every frame is sent behind the rows that are in the log by then (node_feed.h), and
 *          behind the values that were put.
 * Clock    `span` notifications of a node with another clock are dropped.
 */
#ifndef SUPERVISOR_NODE_WORKER_REMOTE_H
#define SUPERVISOR_NODE_WORKER_REMOTE_H

#include "supervisor/net/secure_channel.h"
#include "supervisor/node/node_protocol.h"
#include "supervisor/proc/worker_link.h"
#include "supervisor/store/store.h"

struct remote_site; /* opaque */
struct remote_link;

/* The workers of all sites of a run, by their numbers. */
struct remote_roster {
    struct remote_link **links;
    size_t n;
    uint64_t passes; /* messages of groups that went on to other nodes */
};

/* The worker of this name reads these columns of the log: [n_columns], copied. */
void remote_roster_reads(struct remote_roster *r, const char *name,
                         const uint8_t *columns, size_t n_columns);

struct remote_site_args {
    struct remote_roster *roster; /* shared by the sites */
    const struct store *store;    /* the experience log; borrowed */
    /* There is something to deliver, or the node was lost: to be looked at from the loop.
     * May be called from within an operation. */
    void (*on_news)(void *ctx);
    void *ctx;
};

struct remote_site *remote_site_new(const struct remote_site_args *args);
/* Its links must be closed. NULL is fine. */
void remote_site_free(struct remote_site *s);
struct worker_site *remote_site_base(struct remote_site *s);

/* A node has connected. host: copied. same_clock: it is on this machine. generation: number of
 * the node's start. */
void remote_site_join(struct remote_site *s, struct channel *c, const char *host,
                      int same_clock, uint64_t generation);
/* Whether the node has what its processes need (node_feed.h). */
int remote_site_is_level(const struct remote_site *s);
/* The node is connected; it was lost otherwise, or never was there. */
int remote_site_is_up(const struct remote_site *s);
/* A message came from the node. Calls nobody but on_news. */
void remote_site_take(struct remote_site *s, const uint8_t *data, size_t len);
/* The connection has ended. Calls nobody but on_news. */
void remote_site_lose(struct remote_site *s, const struct err *why);
/* After remote_site_lose, also by the site itself: why. */
const struct err *remote_site_why_lost(const struct remote_site *s);

/* From the loop: delivers what has come. */
void remote_site_deliver(struct remote_site *s);
/* From the loop: reports the exits of the lost processes. */
void remote_site_release(struct remote_site *s);
/* Number of workers here; of those that wait for remote_site_release. */
size_t remote_site_count(const struct remote_site *s);
size_t remote_site_count_lost(const struct remote_site *s);
/* Moves all workers of a lost site to another one; why NULL. Or makes every further start
 * fail with this error; `to` NULL. */
void remote_site_move(struct remote_site *s, struct remote_site *to,
                      const struct err *why);
/* The log's rows below `row` are not read again. */
void remote_site_forget(struct remote_site *s, uint64_t row);
/* Sends rows and shared memory that the node lacks, and frames that waited for them. */
void remote_site_feed(struct remote_site *s);
/* The run ends: that the connection ends then is no loss. */
void remote_site_part(struct remote_site *s);

#endif
