#include "supervisor/node/node_launch.h"

#include "common/config/yaml_tree.h"
#include "common/io/shell_quote.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/node/placement.h"
#include "supervisor/node/reach.h"
#include "supervisor/node/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces {node} and {host}. */
static const char *fill_in(const char *word, size_t node, const char *host,
                           struct arena *arena)
{
    struct xstream text;
    FILE *f = xstream_begin(&text);
    const char *after, *ret;

    for (; *word != '\0'; word = after) {
        if ((after = text_after(word, "{node}")) != NULL) {
            (void)fprintf(f, "%zu", node);
        } else if ((after = text_after(word, "{host}")) != NULL) {
            (void)fputs(host, f);
        } else {
            (void)fputc(*word, f);
            after = word + 1;
        }
    }
    ret = arena_strdup(arena, xstream_end(&text));
    free(text.text);
    return ret;
}

int node_command_make(struct words *ret, const struct cluster_config *config, size_t node,
                      const char *binary, const char *address, const char *name,
                      struct arena *arena, struct err *err)
{
    const char *host = placement_host(config, node);
    size_t n_launcher;

    *ret = (struct words){.arena = arena};
    if (config->launcher == LAUNCHER_SSH) {
        words_add(ret, "ssh", "-T", NULL);
        placement_add_options(config, ret);
        words_add(ret, "--", host, NULL);
    } else if (config->launcher == LAUNCHER_SLURM) {
        slurm_add_words(ret, config, node, name);
    } else if (config->launcher == LAUNCHER_COMMAND) {
        for (size_t i = 0; i < config->command->n; i++)
            words_add(ret, fill_in(config->command->child[i]->text, node, host, arena),
                      NULL);
    }
    n_launcher = ret->n;
    /* `brood node ...` itself */
    words_add(ret, binary, "node", "--connect", address, "--silence",
              arena_printf(ret->arena, "%.0f", config->silence_s * 1000), NULL);
    if (config->launcher == LAUNCHER_SLURM && slurm_job() == NULL)
        words_add(ret, "--scancel", NULL);
    if (!config->encrypt)
        words_add(ret, "--plain", NULL);
    if (config->launcher == LAUNCHER_SSH) {
        /* for the shell at the other end of ssh */
        for (size_t i = n_launcher; i < ret->n; i++) {
            char *word = shell_word(ret->list[i]);

            ret->list[i] = arena_strdup(ret->arena, word);
            free(word);
        }
    }
    if (ret->n > PROGRAM_MAX_WORDS)
        return err_set(err, ERR_LIMIT, "cluster: the command has more than %d words",
                       PROGRAM_MAX_WORDS);
    return 0;
}

const char *node_command_key(const struct channel_secret *secret,
                             const struct node_identity *identity, struct arena *arena)
{
    uint8_t raw[CHANNEL_ID_BYTES + CHANNEL_KEY_BYTES];
    char text[2 * sizeof(raw) + 1], name[NODE_IDENTITY_BYTES];

    memcpy(raw, secret->id, CHANNEL_ID_BYTES);
    memcpy(raw + CHANNEL_ID_BYTES, secret->key, CHANNEL_KEY_BYTES);
    for (size_t i = 0; i < sizeof(raw); i++)
        (void)snprintf(text + 2 * i, 3, "%02x", raw[i]);
    return arena_printf(arena, "%s %s\n", text, node_identity_text(identity, name));
}

const char *node_command_address(const char *address, struct arena *arena)
{
    const char *port = text_after(address, "0.0.0.0:");
    char own[REACH_BYTES];

    if (port == NULL) /* a socket of IPv6 takes connections of IPv4, too */
        port = text_after(address, "[::]:");
    if (port == NULL)
        return arena_strdup(arena, address);
    reach_first(own);
    return arena_printf(arena, "%s:%s", own, port);
}
