#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/core/attrs.h>

#include "base/inner/json_escape.h"
#include "graph/program.h"

void tl_program_set_timing(tl_program *p, bool on)
{
    p->timing = on;
    for (int64_t i = 0; on && i < p->step_count; i++) p->steps[i].total_ns = p->steps[i].runs = 0;
}

static bool is_in_place(const tl_node *pack, int i)
{
    const tl_pack_attr *a = pack->attr;
    const tl_tensor *part = pack->in[i], *whole = pack->out[0];
    const int64_t size = (int64_t)tl_dtype_size(whole->dtype);
    return part->storage && part->storage == whole->storage
           && part->offset * (int64_t)tl_dtype_size(part->dtype)
                  == (whole->offset + a->offsets.items[i]) * size;
}

/* What a call reads and writes; of a pack the parts that are not in their place already. */
static double bytes_of(const tli_step *s)
{
    const tl_node *n = s->node;
    double bytes = 0, moved = 0;
    if (n->op->op != TL_OP_pack) return tl_node_bytes(n);
    for (int i = 0; i < n->inputs; i++) {
        bytes += 2 * (double)tl_tensor_bytes(n->in[i]);
        if (!is_in_place(n, i)) moved += 2 * (double)tl_tensor_bytes(n->in[i]);
    }
    return moved == bytes ? tl_node_bytes(n) : moved;
}

void tl_program_measure(const tl_program *p, tl_program_stats *out)
{
    *out = (tl_program_stats){.kernels = p->step_count,
                              .collectives = p->collectives,
                              .workspace = p->workspace_bytes,
                              .unplanned = p->unplanned_bytes,
                              .packed = p->packed_bytes,
                              .compile_s = p->compile_s};
    for (int64_t i = 0; i < p->graph->copies.count; i++)
        out->copied += (int64_t)tl_tensor_bytes(p->graph->copies.items[i].refresh->out[0]);
    for (int64_t i = 0; i < p->step_count; i++) {
        const tl_node *n = p->steps[i].node;
        out->flops += tl_node_flops(n);
        out->bytes += bytes_of(&p->steps[i]);
        out->nests += n->op == &tli_op_nest;
        out->compiled += p->steps[i].code != NULL;
    }
}

int64_t tl_program_collectives(const tl_program *p)
{
    return p->collectives;
}

/* --- table ------------------------------------------------------------------------------------ */

static double mean_us(const tli_step *s)
{
    return s->runs ? (double)s->total_ns / 1e3 / (double)s->runs : 0;
}

// What exchange between lanes adds to a run: nothing is computed meanwhile.
static double collective_us(const tl_program *p)
{
    double sum = 0;
    for (int64_t i = 0; i < p->step_count; i++)
        if (tli_is_collective(p->steps[i].node)) sum += mean_us(&p->steps[i]);
    return sum;
}

static int by_time(const void *a, const void *b)
{
    const tli_step *x = *(tli_step *const *)a, *y = *(tli_step *const *)b;
    double tx = mean_us(x), ty = mean_us(y);
    if (tx != ty) return tx < ty ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* What a call needs at least: its multiply-adds in registers, or those of its bytes from memory
 * that no cache can hold. `cached`: all of them may lie there, and how fast that is was not
 * measured. */
static double least_us(bool *cached, const tli_step *s, const tl_limits *most)
{
    const tl_node *n = s->node;
    bool half = n->inputs && (n->in[0]->dtype == TL_BF16 || n->in[0]->dtype == TL_F16);
    const double rate = half ? most->half_flops : most->flops, bytes = bytes_of(s);
    const double compute = rate > 0 ? tl_node_flops(n) / rate : 0;
    const double move = bytes > most->cache ? (bytes - most->cache) / most->bytes : 0;
    *cached = bytes <= most->cache && bytes / most->bytes > compute;
    TL_ASSERT(compute >= 0 && move >= 0);
    return (compute > move ? compute : move) * 1e-3;
}

static void add_share(const tli_step *s, double us, const tl_limits *most, tl_str *out)
{
    bool cached;
    double least = least_us(&cached, s, most);
    tl_str_addf(out, " %9.1f", least);
    if (cached) tl_str_add(out, "  cache");
    else tl_str_addf(out, " %6.0f", us > 0 ? 100 * least / us : 0);
}

static void add_row(const tli_step *s, double total, int name, const tl_limits *most, tl_str *out)
{
    const tl_node *n = s->node;
    double us = mean_us(s), flops = tl_node_flops(n), bytes = bytes_of(s);
    char spec[TL_TENSOR_TEXT];
    tl_str_addf(out, "%10.1f %5.1f %9.1f %8.1f", us, total > 0 ? 100 * us / total : 0,
                us > 0 ? flops / us / 1e3 : 0, us > 0 ? bytes / us / 1e3 : 0);
    if (most) add_share(s, us, most, out);
    tl_str_addf(out, "  %-*s %s  %s%s\n", name, n->op->name,
                tl_tensor_spec(spec, n->outputs ? n->out[0] : n->in[0]), n->path,
                s->kernel.flags & TL_KERNEL_STAGED ? " (on the host)" : "");
}

static int longest_name(const tl_program *p)
{
    size_t longest = 24;
    for (int64_t i = 0; i < p->step_count; i++) {
        size_t length = strlen(p->steps[i].node->op->name);
        longest = length > longest ? length : longest;
    }
    return (int)longest;
}

void tl_program_report(const tl_program *p, const tl_limits *most, tl_str *out)
{
    tl_program_stats s;
    tl_program_measure(p, &s);
    const tli_step **rows = tl_alloc((size_t)(p->step_count + 1) * sizeof *rows);
    double total = 0;
    for (int64_t i = 0; i < p->step_count; i++) total += mean_us(&p->steps[i]);
    tl_str_addf(
        out,
        "%s: %" PRId64 " kernels (%" PRId64 " nests, %" PRId64
        " compiled), %.3f GFLOP, %.1f MB moved, workspace %.1f MB (%.1f MB without planning)",
        p->name, s.kernels, s.nests, s.compiled, s.flops * 1e-9, s.bytes * 1e-6,
        (double)s.workspace * 1e-6, (double)s.unplanned * 1e-6);
    if (s.copied) tl_str_addf(out, ", weights in half precision %.1f MB", (double)s.copied * 1e-6);
    if (s.packed) tl_str_addf(out, ", packed weights %.1f MB", (double)s.packed * 1e-6);
    if (total > 0) tl_str_addf(out, ", %.3f ms", total * 1e-3);
    if (s.collectives)
        tl_str_addf(out, ", %" PRId64 " collectives%s", s.collectives,
                    total > 0 ? "" : " of lanes");
    if (s.collectives && total > 0)
        tl_str_addf(out, " in which lanes wait %.3f ms", collective_us(p) * 1e-3);
    tl_str_addf(out, "\n        us     %%   GFLOP/s     GB/s%s  kernel\n",
                most ? "  least us limit%" : "");
    for (int64_t i = 0; rows && i < p->step_count; i++) rows[i] = &p->steps[i];
    if (rows && total > 0) qsort(rows, (size_t)p->step_count, sizeof *rows, by_time);
    int name = longest_name(p);
    for (int64_t i = 0; rows && i < p->step_count; i++) add_row(rows[i], total, name, most, out);
    tl_free(rows);
}

/* --- trace ------------------------------------------------------------------------------------ */

tl_status tl_program_trace(const tl_program *p, tl_str *out)
{
    const char *separator = "";
    tl_str_add(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (int64_t i = 0; i < p->step_count; i++) {
        const tli_step *s = &p->steps[i];
        if (!s->runs) continue;
        tl_str_addf(out, "%s\n{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"name\": \"%s\", \"cat\": ",
                    separator, s->node->op->name);
        tli_json_add_text(out, s->node->path, false);
        tl_str_addf(out,
                    ", \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"flops\": %.0f, \"bytes\": %.0f}}",
                    (double)(s->begin_ns - p->steps[0].begin_ns) / 1e3,
                    (double)(s->end_ns - s->begin_ns) / 1e3, tl_node_flops(s->node), bytes_of(s));
        separator = ",";
    }
    tl_str_add(out, "\n]}\n");
    if (!*separator)
        return TL_FAIL(TL_ESTATE, "%s: no run was timed yet; turn timing on and run it first",
                       p->name);
    return tl_str_status(out);
}
