/* plugin.h - an environment process around a shared object (brood_env.h): speaks
 * env_protocol.h. */
#ifndef AGENT_PLUGIN_PLUGIN_H
#define AGENT_PLUGIN_PLUGIN_H

/* `plugin <parent pid> <path>`: argv[0] is "plugin". Returns an exit code. */
int plugin_main(int argc, char **argv);

#endif
