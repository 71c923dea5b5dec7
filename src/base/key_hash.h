/* The hash that maps find their keys by. Each process draws its own, so that nobody can write keys
 * that all fall on one place; what must be the same tomorrow is hashed with tl_hash_bytes. */
#ifndef TILTH_BASE_KEY_HASH_H
#define TILTH_BASE_KEY_HASH_H

#include <stdint.h>

uint64_t tli_key_hash(const char *text);

#endif
