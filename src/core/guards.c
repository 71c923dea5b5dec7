/* Guard zones around storages, and the pattern of what nobody has written: for checking. On another
 * device than the host both are put there by fills in the engine's queue, and looked at in
 * copies. */

#include "core/inner/engine.h"

enum { GUARD_BYTE = 0xc7 };

// What lies between the zones keeps the alignment of the device.
size_t tli_guard_size(const tli_memory *m)
{
    size_t alignment = m->device->cls->alignment;
    if (!m->guarded) return 0;
    return alignment > TLI_GUARD ? alignment : TLI_GUARD;
}

static tl_status fill(tl_storage *s, int64_t from, int64_t to, uint16_t pattern)
{
    const tli_memory *m = s->memory;
    const tl_device_class *d = m->on_host ? &tl_device_host : m->device->cls;
    TL_TRY(d->fill(m->queue, (char *)s->data + from, pattern, (size_t)(to - from)));
    if (!m->on_host) tli_storage_written(s);
    return TL_OK;
}

tl_status tli_guard_elements(tl_storage *s)
{
    return fill(s, 0, (int64_t)s->capacity, TLI_UNWRITTEN);
}

// Fills begin at even bytes; the last element's last byte is nobody's yet.
tl_status tli_guard_zones(tl_storage *s)
{
    const int64_t guard = (int64_t)tli_guard_size(s->memory);
    TL_TRY(fill(s, -guard, 0, GUARD_BYTE << 8 | GUARD_BYTE));
    return fill(s, (int64_t)s->bytes / 2 * 2, (int64_t)s->capacity + guard,
                GUARD_BYTE << 8 | GUARD_BYTE);
}

/* --- looking ---------------------------------------------------------------------------------- */

/* Bytes from `from` to `to` of a storage, as the host sees them. */
typedef struct zone {
    const unsigned char *bytes;
    int64_t from, to;
} zone;

static bool is_whole(zone z, int64_t *at)
{
    for (int64_t i = z.from; i < z.to; i++) {
        if (z.bytes[i - z.from] == GUARD_BYTE) continue;
        *at = i;
        return false;
    }
    return true;
}

static tl_status bring(const tl_storage *s, zone *z, char *to)
{
    const tli_memory *m = s->memory;
    z->bytes = (const unsigned char *)to;
    return m->device->cls->copy(m->out, to, (char *)s->data + z->from, (size_t)(z->to - z->from));
}

// All work so far may have written there.
static tl_status bring_zones(const tl_storage *s, zone zones[2], tl_storage **out)
{
    const tli_memory *m = s->memory;
    const int64_t size = zones[0].to - zones[0].from;
    TL_TRY(tli_storage_new(out, tli_engine_staging(m->engine),
                           (size_t)(size + zones[1].to - zones[1].from)));
    TL_TRY(m->device->cls->after(m->out, m->queue, tl_queue_ticket(m->queue)));
    TL_TRY(bring(s, &zones[0], (*out)->data));
    TL_TRY(bring(s, &zones[1], (char *)(*out)->data + size));
    tli_ticket_raise(&(*out)->leaving, tl_queue_ticket(m->out));
    return tl_queue_wait(m->out, tl_queue_ticket(m->out));
}

tl_status tli_storage_intact(const tl_storage *s, bool *intact, int64_t *at)
{
    const unsigned char *data = s->data;
    const int64_t guard = (int64_t)tli_guard_size(s->memory), bytes = (int64_t)s->bytes;
    tl_storage *staged = NULL;
    *intact = true;
    if (!s->memory->guarded) return TL_OK;
    zone zones[] = {{.from = -guard, .to = 0}, {.from = bytes, .to = (int64_t)s->capacity + guard}};
    tl_status st = TL_OK;
    if (s->memory->on_host) {
        zones[0].bytes = data - guard;
        zones[1].bytes = data + bytes;
    } else {
        st = bring_zones(s, zones, &staged);
    }
    if (st == TL_OK) *intact = is_whole(zones[0], at) && is_whole(zones[1], at);
    tli_storage_release(staged);
    return st;
}
