/* Where values came from: looked up by dotted path. */
#include <string.h>

#include "desc/config/apply.h"

/* A list whose items were set one by one later came, in part, from there. */
static const tli_source *newer_item(const tli_sources *sources, const char *path, int64_t round)
{
    const tli_source *best = NULL;
    size_t length = strlen(path);
    for (int64_t i = 0; i < tl_map_count(&sources->map); i++) {
        const char *key = tl_map_key(&sources->map, i);
        const tli_source *source = tl_map_at(&sources->map, i);
        if (strncmp(key, path, length) != 0 || key[length] != '[' || source->round <= round)
            continue;
        if (!best || source->order > best->order) best = source;
    }
    return best;
}

bool tli_source_is_experiment(tl_place place)
{
    return place.source && strncmp(place.source, "experiment '", 12) == 0;
}

tl_place tli_source_of(const tli_sources *sources, const char *path)
{
    if (!sources) return (tl_place){0};
    // The newest of all that was said about the path and about what it lies in. A list speaks for
    // its items; a struct is remembered when it was made or made null, so that what is in it and
    // was not said since has its default.
    const tli_source *best = NULL;
    char behind = '\0';
    for (int64_t i = 0; i < tl_map_count(&sources->map); i++) {
        const char *key = tl_map_key(&sources->map, i);
        const tli_source *source = tl_map_at(&sources->map, i);
        size_t length = strlen(key);
        bool about = strncmp(path, key, length) == 0
                     && (!path[length] || path[length] == '.' || path[length] == '[');
        if (!about || (best && best->order > source->order)) continue;
        best = source;
        behind = path[length];
    }
    const tli_source *item = newer_item(sources, path, best ? best->round : 0);
    if (item) return item->place;
    return best && behind != '.' ? best->place : (tl_place){0};
}

const tli_source *tli_source_inside(const tli_sources *sources, const char *path)
{
    const tli_source *best = NULL;
    size_t length = strlen(path);
    for (int64_t i = 0; sources && i < tl_map_count(&sources->map); i++) {
        const char *key = tl_map_key(&sources->map, i);
        const tli_source *source = tl_map_at(&sources->map, i);
        bool inside = strncmp(key, path, length) == 0 && key[length] == '.';
        if (!inside || tli_source_is_experiment(source->place)) continue;
        if (!best || source->order > best->order) best = source;
    }
    return best;
}
