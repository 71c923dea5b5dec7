/* Memory that runs out at every possible moment of reading, overriding, finishing and writing a
 * configuration: always TL_ENOMEM, nothing leaks, and what comes next works. Once through our own
 * allocator, and once through malloc itself, so that libyaml and the C library are hit as well. */
#include "test.h"

#include <dlfcn.h>
#include <regex.h>
#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/map.h>

#include "desc/sample.h"

#if !SANITIZED && defined(__GLIBC__)
#define OWN_MALLOC 1
#endif

/* --- a configuration with everything in it ---------------------------------------------------- */

typedef struct everything {
    sample all;
    const char *word;
    int64_t low, high;
    tl_oneof task;
} everything;

static tl_status everything_check(const void *value)
{
    const everything *e = value;
    return e->low <= e->high ? TL_OK : TL_FAIL(TL_EINVAL, "low is above high");
}

static const tl_kind tasks = {.name = "task", .plural = "tasks", .class_size = sizeof(tl_class)};
static const tl_field everything_fields[] = {
    TL_F_STRUCT(everything, all, &sample_desc, .help = "h"),
    TL_F(everything, word, .s = "ab", .pattern = "^(a|b|ab)*[a-z]{1,3}$", .help = "h"),
    TL_F(everything, low, TL_RANGE(0, 100), .help = "h"),
    TL_F(everything, high, .i = 10, .flags = TL_FIELD_QUIET, .help = "h"),
    TL_F(everything, task, .kind = &tasks, .help = "h"),
    TL_F_END,
};
static const char *const restrictions[] = {"low < high", "task.type != None", "all.extra.a[0] == 1",
                                           NULL};
static const tl_desc everything_desc = {
    .name = "everything",
    .size = sizeof(everything),
    .fields = everything_fields,
    .check = everything_check,
    .restrictions = restrictions,
};

static const tl_class drawing = TL_CLASS(tl_class, "drawing", NULL, int, &layer_desc, .help = "h");
static const tl_class painting =
    TL_CLASS(tl_class, "art/painting", NULL, int, &point_desc, .help = "h");
static const tl_entry entries[] = {{&tasks, &drawing}, {&tasks, &painting}};
static const tl_module module = {TL_MODULE_HEAD("art"), entries, TL_COUNT(entries)};

static const char file_text[] =
    "# a file with everything that YAML has\n"
    "all: &all\n"
    "  flag: no\n"
    "  name: \"text \\u00e9 over\n    two lines\"\n"
    "  counts: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n"
    "  rates: !!python/tuple [1e-4, .inf]\n"
    "  names: ['x, y', z]\n"
    "  colors: [red, null]\n"
    "  target: {x: 1.5}\n"
    "  layers:\n"
    "  - {name: one, kernel: [1, 2], origin: {label: there}}\n"
    "  - {name: two}\n"
    "  optimizer: {type: adam, adam: {clip: 1}, sgd: {momentum: 0.1}}\n"
    "  extra: &extra\n    a: [1, {b: c}]\n    d: |\n      literal\n      text\n"
    "  model: {units: 3}\n"
    "word: abc\n"
    "task: {type: drawing, drawing: {units: 5}}\n";
static char file_path[TEMPORARY_PATH];

/* One configuration from beginning to end. */
static tl_status fill_config(tl_config *c)
{
    TL_TRY(tl_config_read(c, file_path));
    TL_TRY(tl_config_override(c, "low=1,all.counts=[1,2,3],all.names=['a','b'],all.corner.x=5",
                              "--csv"));
    TL_TRY(tl_config_override(
        c, "{all: {extra: {a: [1], e: {f: g}}, layers: [{units: 1}, {bias: no}]}}", "--yaml"));
    TL_TRY(tl_config_override(c, file_path, "--file"));
    TL_TRY(tl_config_override(c, "all.extra.a=[1]", "--csv"));
    TL_TRY(tl_config_word(c, "all.layers[1].kernel[0]=7", "words"));
    TL_TRY(tl_config_word(c, "++all.extra.n={m: 1}", "words"));
    TL_TRY(tl_config_word(c, "+all.maybe_rate=1e-3", "words"));
    TL_TRY(tl_config_word(c, "~all.extra.d", "words"));
    TL_TRY(tl_config_word(c, "~all.target", "words"));
    TL_TRY(tl_config_word(c, "task.type=art/painting", "words"));
    TL_TRY(tl_config_restrict(c, "all.count >= low"));
    return tl_config_finish(c);
}

static tl_status use_config(tl_config *c, uint64_t *hash)
{
    tl_str plain = TL_STR_INIT, explained = TL_STR_INIT, value = TL_STR_INIT;
    const everything *e = tl_config_value(c);
    tl_arena *arena;
    tl_status st = tl_arena_new(&arena);
    everything copy;
    const tl_value *read;
    if (st == TL_OK) st = tl_desc_copy(arena, &everything_desc, &copy, e);
    if (st == TL_OK) *hash = tl_desc_hash(TL_HASH_SEED, &everything_desc, &copy);
    if (st == TL_OK) st = tl_config_write(&plain, c, false);
    if (st == TL_OK) st = tl_config_write(&explained, c, true);
    if (st == TL_OK)
        st = tl_yaml_parse(&read, arena, tl_str_text(&explained), explained.length, "explained");
    if (st == TL_OK) st = tl_yaml_write_value(&value, read);
    if (st == TL_OK) *hash = tl_hash_bytes(*hash, tl_str_text(&plain), plain.length);
    if (st == TL_OK) *hash = tl_hash_bytes(*hash, tl_str_text(&explained), explained.length);
    if (st == TL_OK) *hash = tl_hash_bytes(*hash, tl_str_text(&value), value.length);
    tl_str_deinit(&plain);
    tl_str_deinit(&explained);
    tl_str_deinit(&value);
    tl_arena_free(&arena);
    return st;
}

/* `hash` is of all that came out. */
static tl_status run(uint64_t *hash)
{
    tl_registry *registry = NULL;
    tl_config *c = NULL;
    tl_status st = tl_registry_new(&registry);
    if (st == TL_OK) st = tl_registry_add(registry, &module);
    if (st == TL_OK) st = tl_desc_verify(&everything_desc);
    if (st == TL_OK) st = tl_config_new(&c, registry, &everything_desc);
    if (st == TL_OK) st = fill_config(c);
    if (st == TL_OK) st = use_config(c, hash);
    tl_config_free(&c);
    tl_registry_free(&registry);
    return st;
}

/* Sources with mistakes, whose messages need memory too. */
static const char *const mistakes[] = {
    "{all: {flga: 1, count: x, layers: [{unist: 1}], colors: [blue]}}",
    "all: {optimizer: {type: adma, sgdd: 1}}",
    "all.count=x,low=1000,word=0,lwo=1",
    "{all: [",
    "low=[[1]]",
    "nowhere.yaml",
    "a: 1\na: 2\n",
    "{a: *b}",
    "{low: \"\xff\"}",
    "{low: !!set {a}}",
};

static tl_status run_mistake(const char *text)
{
    tl_config *c = NULL;
    tl_status st = tl_config_new(&c, NULL, &everything_desc);
    if (st == TL_OK) st = tl_config_override(c, text, "--params_override");
    tl_config_free(&c);
    return st;
}

static int begin_all(void **state)
{
    (void)state;
    int file = mkstemp(temporary(file_path, "tilth_alloc"));
    if (file < 0) return 1;
    close(file);
    return tl_file_write_atomic(file_path, file_text, sizeof file_text - 1) != TL_OK;
}

static int end_all(void **state)
{
    (void)state;
    return unlink(file_path);
}

/* --- our allocator ---------------------------------------------------------------------------- */

static void test_own_allocator(void **state)
{
    (void)state;
    uint64_t expected = 0;
    int64_t before = tl_alloc_calls();
    assert_ok(run(&expected));
    int64_t calls = tl_alloc_calls() - before;
    assert_true(calls > 50);
    for (int64_t nth = 1; nth <= calls; nth += test_failure_step(nth)) {
        uint64_t hash = 0;
        tl_alloc_fail_at(nth, 1);
        tl_error_clear();
        tl_status st = run(&hash);
        tl_alloc_fail_at(0, 0);
        if (st != TL_ENOMEM || tl_error_code() != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
    }
    uint64_t hash = 0;
    assert_ok(run(&hash));
    assert_true(hash == expected); // nothing remembers what happened
}

/* From some moment on there is none at all. */
static void test_own_allocator_for_good(void **state)
{
    (void)state;
    uint64_t hash = 0;
    int64_t before = tl_alloc_calls();
    assert_ok(run(&hash));
    int64_t calls = tl_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth += 3 * test_failure_step(nth)) {
        tl_alloc_fail_at(nth, INT64_MAX);
        tl_status st = run(&hash);
        tl_alloc_fail_at(0, 0);
        assert_int_equal(st, TL_ENOMEM);
    }
}

static void test_own_allocator_and_mistakes(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(mistakes); i++) {
        int64_t before = tl_alloc_calls();
        tl_status expected = run_mistake(mistakes[i]);
        assert_int_not_equal(expected, TL_OK);
        int64_t calls = tl_alloc_calls() - before;
        for (int64_t nth = 1; nth <= calls; nth += test_failure_step(nth)) {
            tl_alloc_fail_at(nth, 1);
            tl_status st = run_mistake(mistakes[i]);
            tl_alloc_fail_at(0, 0);
            if (st != TL_ENOMEM)
                fail_msg("'%s', allocation %lld: %s: %s", mistakes[i], (long long)nth,
                         tl_status_name(st), tl_error_message());
        }
    }
}

/* --- malloc itself ---------------------------------------------------------------------------- */

#ifdef OWN_MALLOC

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static struct {
    bool on;
    int64_t calls, fail_at; /* fail_at 0: never */
    int64_t live;           /* below 0 where the C library hands out memory past malloc */
} heap;

static bool must_fail(void)
{
    return heap.on && ++heap.calls == heap.fail_at;
}

void *malloc(size_t bytes)
{
    if (must_fail()) return NULL;
    void *memory = __libc_malloc(bytes);
    if (heap.on && memory) heap.live++;
    return memory;
}

void *calloc(size_t count, size_t size)
{
    if (must_fail()) return NULL;
    void *memory = __libc_calloc(count, size);
    if (heap.on && memory) heap.live++;
    return memory;
}

void *realloc(void *old, size_t bytes)
{
    if (must_fail()) return NULL;
    void *memory = __libc_realloc(old, bytes);
    if (heap.on && memory && !old) heap.live++;
    return memory;
}

void free(void *memory)
{
    if (heap.on && memory) heap.live--;
    __libc_free(memory);
}

/* glibc's regular expressions leak, and free twice, when memory runs out inside of them (2.36).
 * What is ours is to take "no memory" for an answer, so here they give it as a whole or not at all.
 */
static void *next_function(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

int regcomp(regex_t *expression, const char *pattern, int flags)
{
    bool was_on = heap.on;
    if (must_fail()) return REG_ESPACE;
    int (*real)(regex_t *, const char *, int);
    heap.on = false;
    *(void **)&real = next_function("regcomp");
    int result = real(expression, pattern, flags);
    heap.on = was_on;
    return result;
}

/* Under a name of its own, because the header's declaration has an array of variable length. */
int own_regexec(const regex_t *expression, const char *text, size_t count, void *matches,
                int flags) __asm__("regexec");
int own_regexec(const regex_t *expression, const char *text, size_t count, void *matches, int flags)
{
    bool was_on = heap.on;
    if (must_fail()) return REG_ESPACE;
    int (*real)(const regex_t *, const char *, size_t, void *, int);
    heap.on = false;
    *(void **)&real = next_function("regexec");
    int result = real(expression, text, count, matches, flags);
    heap.on = was_on;
    return result;
}

void regfree(regex_t *expression)
{
    bool was_on = heap.on;
    void (*real)(regex_t *);
    heap.on = false;
    *(void **)&real = next_function("regfree");
    real(expression);
    heap.on = was_on;
}

static tl_status run_on_heap(tl_status (*what)(const void *argument), const void *argument,
                             int64_t nth)
{
    heap.calls = heap.live = 0;
    heap.fail_at = nth;
    heap.on = true;
    tl_status st = what(argument);
    heap.on = false;
    return st;
}

static uint64_t heap_hash;

static tl_status heap_run(const void *argument)
{
    (void)argument;
    heap_hash = 0;
    return run(&heap_hash);
}

static tl_status heap_mistake(const void *text)
{
    return run_mistake(text);
}

/* Sorting takes memory when it can and does without when it cannot: then all must be as ever. */
static void test_the_heap(void **state)
{
    (void)state;
    assert_int_equal(run_on_heap(heap_run, NULL, 0), TL_OK);
    assert_true(heap.live <= 0);
    uint64_t expected = heap_hash;
    int64_t calls = heap.calls;
    for (int64_t nth = 1; nth <= calls; nth++) {
        tl_status st = run_on_heap(heap_run, NULL, nth);
        bool fine = st == TL_ENOMEM || (st == TL_OK && heap_hash == expected);
        if (!fine || heap.live > 0)
            fail_msg("malloc %lld: %s: %s, %lld left", (long long)nth, tl_status_name(st),
                     tl_error_message(), (long long)heap.live);
    }
}

static void test_the_heap_and_mistakes(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(mistakes); i++) {
        tl_status expected = run_on_heap(heap_mistake, mistakes[i], 0);
        assert_true(heap.live <= 0);
        int64_t calls = heap.calls;
        for (int64_t nth = 1; nth <= calls; nth++) {
            tl_status st = run_on_heap(heap_mistake, mistakes[i], nth);
            if ((st != TL_ENOMEM && st != expected) || heap.live > 0)
                fail_msg("'%s', malloc %lld: %s: %s, %lld left", mistakes[i], (long long)nth,
                         tl_status_name(st), tl_error_message(), (long long)heap.live);
        }
    }
}

#else

static void test_the_heap(void **state)
{
    (void)state;
    skip(); // a sanitizer has malloc
}

static void test_the_heap_and_mistakes(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_allocator),
        cmocka_unit_test(test_own_allocator_for_good),
        cmocka_unit_test(test_own_allocator_and_mistakes),
        cmocka_unit_test(test_the_heap),
        cmocka_unit_test(test_the_heap_and_mistakes),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
