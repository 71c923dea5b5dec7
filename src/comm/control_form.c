#include "comm/control.h"

#include <stdio.h>
#include <string.h>

/* A message is its length, without these four bytes, its type, its numbers and its text. */

static uint8_t *put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint64_t take(const uint8_t **at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)(*at)[i] << (8 * i);
    *at += bytes;
    return value;
}

/* Bytes of the numbers of a type; -1: there is no such type. */
static int numbers_of(uint32_t type)
{
    switch (type) {
    case TLI_CONTROL_HELLO: return 16;
    case TLI_CONTROL_BEAT: return 24;
    case TLI_CONTROL_FAIL:
    case TLI_CONTROL_BYE:
    case TLI_CONTROL_END: return 0;
    default: return -1;
    }
}

size_t tli_control_write(uint8_t out[TLI_CONTROL_TEXT + 64], const tli_control_message *m)
{
    size_t text = strnlen(m->text, sizeof m->text - 1);
    uint8_t *at = put(out, 4 + (uint64_t)numbers_of(m->type) + text, 4);
    at = put(at, m->type, 4);
    if (m->type == TLI_CONTROL_HELLO) {
        at = put(at, (uint32_t)m->version, 4);
        at = put(at, (uint32_t)m->rank, 4);
        at = put(at, (uint32_t)m->size, 4);
        at = put(at, (uint32_t)m->process, 4);
    } else if (m->type == TLI_CONTROL_BEAT) {
        at = put(at, (uint32_t)m->doing, 4);
        at = put(at, (uint32_t)m->kind, 4);
        at = put(at, (uint64_t)m->step, 8);
        at = put(at, (uint64_t)m->calls, 8);
    }
    memcpy(at, m->text, text);
    return (size_t)(at - out) + text;
}

static tl_status damaged(const char *what)
{
    return TL_FAIL(TL_EDATA, "what came over the control channel is no message: %s", what);
}

tl_status tli_control_read(tli_control_message *out, size_t *used, const uint8_t *data, size_t size)
{
    const uint8_t *at = data;
    *used = 0;
    if (size < 4) return TL_OK;
    uint64_t length = take(&at, 4);
    if (length < 4 || length > TLI_CONTROL_MOST) return damaged("its length");
    if (size - 4 < length) return TL_OK;
    uint32_t type = (uint32_t)take(&at, 4);
    int numbers = numbers_of(type);
    if (numbers < 0) return damaged("its type");
    if (length - 4 < (uint64_t)numbers) return damaged("it is too short");
    size_t text = (size_t)length - 4 - (size_t)numbers;
    if (text >= TLI_CONTROL_TEXT) return damaged("its text is too long");
    *out = (tli_control_message){.type = (tli_control_type)type};
    if (type == TLI_CONTROL_HELLO) {
        out->version = (int32_t)(uint32_t)take(&at, 4);
        out->rank = (int32_t)(uint32_t)take(&at, 4);
        out->size = (int32_t)(uint32_t)take(&at, 4);
        out->process = (int32_t)(uint32_t)take(&at, 4);
    } else if (type == TLI_CONTROL_BEAT) {
        out->doing = (int32_t)(uint32_t)take(&at, 4);
        out->kind = (int32_t)(uint32_t)take(&at, 4);
        out->step = (int64_t)take(&at, 8);
        out->calls = (int64_t)take(&at, 8);
        if ((uint32_t)out->doing >= TL_WORLD_DOINGS) return damaged("what it does");
    }
    for (size_t i = 0; i < text; i++)
        out->text[i] = (char)(at[i] < ' ' || at[i] == 0x7f ? '?' : at[i]);
    *used = (size_t)length + 4;
    return TL_OK;
}
