/* What kernels do not name of the head of their text is left out of it: a compiler takes as long
 * for that as for a kernel. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include <tilth/sys/nest/gpu.h>

#include "nest/gpu.h"

/* --- parts ------------------------------------------------------------------------------------ */

enum {
    MOST_PARTS = 768,
    MOST_NAMES = 2 * MOST_PARTS,
    SLOTS = 4096, /* of names; a power of two */
    NAME_ROOM = 64
};

/* The head is the same in all texts, and is taken apart once: into definitions, which may have two
 * names, and lines that stay in any case. Comments, and what is for the host, are no parts. */
typedef struct part {
    int from, to; /* of the head */
    bool stays;
} part;
static struct {
    part at[MOST_PARTS];
    int count, size;                                         /* parts; bytes of the head */
    uint16_t slots[SLOTS], next[MOST_NAMES], of[MOST_NAMES]; /* names from 1; chained; their part */
    uint32_t hashes[MOST_NAMES];
    int names;
} head;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t name_length(const char *at)
{
    size_t length = 0;
    while (is_letter(at[length])) length++;
    return length;
}

/* FNV-1a. Names that share a hash only keep a part that is not needed. */
static uint32_t hash_of(const char *name, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static void add_name(const char *name, size_t length)
{
    const uint32_t hash = hash_of(name, length);
    const int number = ++head.names;
    TL_ASSERT(number < MOST_NAMES && length > 0);
    head.hashes[number] = hash;
    head.of[number] = (uint16_t)head.count;
    head.next[number] = head.slots[hash % SLOTS];
    head.slots[hash % SLOTS] = (uint16_t)number;
}

static void add_two_names(const char *name, size_t length)
{
    char room[NAME_ROOM] = "vf_";
    TL_ASSERT(length + 4 < sizeof room);
    memcpy(room + 3, name, length);
    add_name(room, length + 3);
    memcpy(room + 3 + length, "_f", 2);
    add_name(room + 3, length + 2);
}

/* --- taking apart ----------------------------------------------------------------------------- */

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static char last_of(const char *line)
{
    const char *next = next_line(line);
    return next > line + 1 ? next[-2] : '\0';
}

/* A function ends with its line, or with the first brace that begins one. */
static const char *end_of_function(const char *line)
{
    const char last = last_of(line);
    if (last == '}' || last == ';') return next_line(line);
    while (*line && *line != '}') line = next_line(line);
    return next_line(line);
}

static const char *end_of_macro(const char *line)
{
    while (*line && last_of(line) == '\\') line = next_line(line);
    return next_line(line);
}

static const char *end_of_comment(const char *line)
{
    const char *end = strstr(line, "*/");
    return end ? next_line(end) : line + strlen(line);
}

static const char *name_before_parenthesis(const char *line)
{
    const char *at = strchr(line, '(');
    TL_ASSERT(at && at > line);
    while (at > line && is_letter(at[-1])) at--;
    return at;
}

/* Conditions that ask for __CUDACC__ are decided here. */
typedef struct conditions {
    enum { OTHER, YES, NO } at[8];
    int depth;
} conditions;

static bool is_left_out(const conditions *c)
{
    for (int i = 0; i < c->depth; i++)
        if (c->at[i] == NO) return true;
    return false;
}

/* Whether the line is one of a condition, and must go. */
static bool follow(conditions *c, const char *line)
{
    if (begins(line, "#if")) {
        TL_ASSERT(c->depth < TL_COUNT(c->at));
        c->at[c->depth++] = begins(line, "#ifdef __CUDACC__")    ? YES
                            : begins(line, "#ifndef __CUDACC__") ? NO
                                                                 : OTHER;
        return c->at[c->depth - 1] != OTHER;
    }
    TL_ASSERT(c->depth > 0);
    const bool decided = c->at[c->depth - 1] != OTHER;
    if (begins(line, "#endif")) c->depth--;
    else if (decided) c->at[c->depth - 1] = c->at[c->depth - 1] == YES ? NO : YES;
    return decided;
}

/* What begins here: its names are noted. Gives its end. */
static const char *take_part(const char *line, bool *stays)
{
    static const char *const functions[] = {"FN ", "TLI_INLINE ", "TLI_RARE "};
    static const char *const formulas[] = {"TLI_FORMULA_", "TLI_TEST_"};
    *stays = false;
    if (begins(line, "#define ")) {
        const char *name = line + strlen("#define ");
        add_name(name, name_length(name));
        return end_of_macro(line);
    }
    for (int i = 0; i < TL_COUNT(functions); i++) {
        if (!begins(line, functions[i])) continue;
        const char *name = name_before_parenthesis(line);
        add_name(name, name_length(name));
        return end_of_function(line);
    }
    for (int i = 0; i < TL_COUNT(formulas); i++) {
        if (!begins(line, formulas[i])) continue;
        const char *name = strchr(line, '(') + 1;
        add_two_names(name, name_length(name));
        return end_of_function(line);
    }
    *stays = true;
    return next_line(line);
}

static void take_apart(const char *text)
{
    conditions c = {0};
    const char *line = text;
    while (*line) {
        if (begins(line, "/*")) {
            line = end_of_comment(line);
            continue;
        }
        const bool condition = begins(line, "#if") || begins(line, "#el") || begins(line, "#endif");
        if (begins(line, "//") || *line == '\n' || (condition && follow(&c, line))
            || is_left_out(&c)) {
            line = next_line(line);
            continue;
        }
        TL_ASSERT(head.count < MOST_PARTS);
        bool stays;
        const char *end = take_part(line, &stays);
        head.at[head.count++] = (part){(int)(line - text), (int)(end - text), stays};
        line = end;
    }
}

// Without memory for it nothing is left out.
static void look_at_head(void)
{
    tl_str text = TL_STR_INIT;
    tl_gpu_print_head(&text);
    if (tl_str_status(&text) == TL_OK) {
        take_apart(tl_str_text(&text));
        head.size = (int)text.length;
    } else tl_error_clear();
    tl_str_deinit(&text);
}

/* --- leaving out ------------------------------------------------------------------------------ */

typedef struct choice {
    bool wanted[MOST_PARTS];
    uint16_t next[MOST_PARTS]; /* parts whose names are to be followed */
    int waiting;
} choice;

static void want(choice *c, int number)
{
    if (c->wanted[number]) return;
    c->wanted[number] = true;
    c->next[c->waiting++] = (uint16_t)number;
}

static void want_named(choice *c, const char *at, const char *end)
{
    while (at < end) {
        if (!is_letter(*at)) {
            at++;
            continue;
        }
        const size_t length = name_length(at);
        const uint32_t hash = hash_of(at, length);
        for (int i = head.slots[hash % SLOTS]; i; i = head.next[i])
            if (head.hashes[i] == hash) want(c, head.of[i]);
        at += length;
    }
}

tl_status tl_gpu_prune(tl_str *out, const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    choice c = {.waiting = 0};
    pthread_once(&once, look_at_head);
    const size_t length = strlen(text), size = (size_t)head.size, mark = strlen(TLI_GPU_HEAD_END);
    if (!size || length < size || memcmp(text + size - mark, TLI_GPU_HEAD_END, mark) != 0) {
        tl_str_add(out, text);
        return tl_str_status(out);
    }
    for (int i = 0; i < head.count; i++)
        if (head.at[i].stays) want(&c, i);
    want_named(&c, text + size, text + length);
    while (c.waiting > 0) {
        const part *p = &head.at[c.next[--c.waiting]];
        want_named(&c, text + p->from, text + p->to);
    }
    for (int i = 0; i < head.count; i++)
        if (c.wanted[i])
            tl_str_addn(out, text + head.at[i].from, (size_t)(head.at[i].to - head.at[i].from));
    tl_str_add(out, text + size);
    return tl_str_status(out);
}
