#include "board/kept.h"

#include <pthread.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>

enum { PLACES = 64, LONGEST = 1 << 20, FRESH_SECONDS = 2 };

typedef struct place {
    tl_str key, answer;
    uint64_t version;
    int64_t made; /* ns */
} place;

struct tli_kept {
    pthread_mutex_t mutex;
    place places[PLACES];
    int next; /* the one that is given up for a new answer */
};

tli_kept *tli_kept_new(void)
{
    tli_kept *c = tl_alloc_zero(sizeof *c);
    if (c) pthread_mutex_init(&c->mutex, NULL);
    return c;
}

void tli_kept_free(tli_kept **kept)
{
    tli_kept *c = *kept;
    if (!c) return;
    for (int i = 0; i < PLACES; i++) {
        tl_str_deinit(&c->places[i].key);
        tl_str_deinit(&c->places[i].answer);
    }
    pthread_mutex_destroy(&c->mutex);
    tl_free(c);
    *kept = NULL;
}

static bool is_fresh(const place *k, const char *key, uint64_t version, int64_t now)
{
    return k->answer.length && k->version == version
           && now - k->made < (int64_t)FRESH_SECONDS * 1000000000
           && strcmp(tl_str_text(&k->key), key) == 0;
}

bool tli_kept_find(tli_kept *c, const char *key, uint64_t version, tl_str *out)
{
    int64_t now = tl_clock_ns();
    bool found = false;
    if (!c) return false;
    pthread_mutex_lock(&c->mutex);
    for (int i = 0; i < PLACES && !found; i++) {
        const place *k = &c->places[i];
        if (!is_fresh(k, key, version, now)) continue;
        tl_str_addn(out, tl_str_text(&k->answer), k->answer.length);
        found = true;
    }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

void tli_kept_keep(tli_kept *c, const char *key, uint64_t version, const tl_str *answer)
{
    if (!c || answer->failed || answer->length > LONGEST) return;
    pthread_mutex_lock(&c->mutex);
    place *k = &c->places[c->next];
    c->next = (c->next + 1) % PLACES;
    // What was long gives its memory back: all together never take more than what is fresh.
    tl_str_deinit(&k->key);
    tl_str_deinit(&k->answer);
    tl_str_add(&k->key, key);
    tl_str_addn(&k->answer, tl_str_text(answer), answer->length);
    if (k->key.failed || k->answer.failed) tl_str_deinit(&k->answer);
    k->version = version;
    k->made = tl_clock_ns();
    pthread_mutex_unlock(&c->mutex);
}
