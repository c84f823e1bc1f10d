/* fuzz.h - a fuzz target is one function that is called with arbitrary bytes.
 *
 * It ends the process (CHECK, or a sanitizer) if the code under test breaks its contract;
 * otherwise it returns 0. Targets keep no state between calls.
 *
 * Ordinary builds link replay_main.c, which runs the corpus and mutations of it as a
 * test; with scripts/presets/fuzz.ini the same targets are libFuzzer programs:
 *
 *     meson setup build-fuzz --native-file scripts/presets/fuzz.ini
 *     ninja -C build-fuzz
 *     build-fuzz/tests/fuzz/fuzz_msg -dict=tests/fuzz/dict/msg.dict tests/fuzz/corpus/msg
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
