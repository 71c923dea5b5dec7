/* A finder of leaks, part of every program of the AddressSanitizer build on AArch64: LeakSanitizer
 * takes four seconds there at the end of each process, however small, to walk through its tables.
 *
 * What malloc gave and free did not take is in a table. When the process ends, after destructors,
 * blocks are marked from where the program could still find them: the writable segments of loaded
 * objects, the stack, the registers and the thread-local data of the last thread, and other marked
 * blocks. An address inside a block counts as the block's own. What is left is shown with the place
 * that allocated it, and the process fails, as it does after other findings. Threads that still run
 * are shown too: nobody waits for them, and what they hold is not known.
 *
 * This file is compiled without sanitizers, for it reads what programs must not.
 * tests/base/test_leaks.c shows what it finds. */
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sanitizer/asan_interface.h>

enum { EXIT_LEAKS = 1, SHOWN = 20, WORD = sizeof(uintptr_t) };
enum { DEPTH = 4 }; /* calls that are looked at of those that asked for a block: malloc is one */
enum { THREAD_DESCRIPTOR = 4096 }; /* at most; glibc's lies below the thread pointer */

// GCC has no header for this one.
int __sanitizer_install_malloc_and_free_hooks(void (*after_malloc)(const volatile void *, size_t),
                                              void (*before_free)(const volatile void *));
const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* Memory of our own: not from malloc, so that it is no block, nor where blocks are looked for. */
static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("leaks: mmap");
        _exit(EXIT_LEAKS);
    }
    return memory;
}

/* --- the table of live blocks: open addressing, no tombstones --------------------------------- */

typedef struct block {
    uintptr_t at; /* 0: an empty slot */
    size_t bytes;
    bool reached, held; /* found from outside; found in a block that was not */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *table;
static size_t slots, used; /* a power of two */
static bool looking;       /* what is allocated now is ours */

static size_t slot_of(uintptr_t at)
{
    return (size_t)((at >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (slots - 1);
}

static void put(uintptr_t at, size_t bytes)
{
    size_t i = slot_of(at);
    while (table[i].at && table[i].at != at) i = (i + 1) & (slots - 1);
    if (!table[i].at) used++;
    table[i] = (block){.at = at, .bytes = bytes};
}

static void grow(void)
{
    block *old = table;
    size_t old_slots = slots;
    slots = slots ? 2 * slots : 1 << 12;
    table = pages(slots * sizeof *table);
    used = 0;
    for (size_t i = 0; i < old_slots; i++) {
        if (old[i].at) put(old[i].at, old[i].bytes);
    }
    if (old) munmap(old, old_slots * sizeof *old);
}

/* Closes the gap: what stands behind it moves up unless it would leave its chain. */
static void take(uintptr_t at)
{
    if (!slots) return;
    size_t gap = slot_of(at);
    while (table[gap].at && table[gap].at != at) gap = (gap + 1) & (slots - 1);
    if (!table[gap].at) return;
    used--;
    for (size_t i = (gap + 1) & (slots - 1); table[i].at; i = (i + 1) & (slots - 1)) {
        size_t home = slot_of(table[i].at);
        if (((i - home) & (slots - 1)) < ((i - gap) & (slots - 1))) continue;
        table[gap] = table[i];
        gap = i;
    }
    table[gap].at = 0;
}

static void after_malloc(const volatile void *memory, size_t bytes)
{
    if (looking || !memory) return;
    pthread_mutex_lock(&lock);
    if (4 * used >= 3 * slots) grow();
    put((uintptr_t)memory, bytes ? bytes : 1);
    pthread_mutex_unlock(&lock);
}

static void before_free(const volatile void *memory)
{
    if (looking || !memory) return;
    pthread_mutex_lock(&lock);
    take((uintptr_t)memory);
    pthread_mutex_unlock(&lock);
}

/* --- marking ---------------------------------------------------------------------------------- */

static block *blocks;   /* the table, sorted by address */
static size_t *to_scan; /* reached blocks that were not looked into yet */
static size_t waiting;

static int by_address(const void *a, const void *b)
{
    const block *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void sort_table(void)
{
    blocks = pages((used + 1) * sizeof *blocks);
    to_scan = pages((used + 1) * sizeof *to_scan);
    size_t count = 0;
    for (size_t i = 0; i < slots; i++) {
        if (table[i].at) blocks[count++] = table[i];
    }
    qsort(blocks, count, sizeof *blocks, by_address);
}

/* The block that the address is in, or NULL. */
static block *block_at(uintptr_t address)
{
    size_t low = 0, high = used;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (blocks[middle].at <= address) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return NULL;
    block *b = &blocks[low - 1];
    return address - b->at < b->bytes ? b : NULL;
}

static void reach(block *b)
{
    if (b->reached) return;
    b->reached = true;
    to_scan[waiting++] = (size_t)(b - blocks);
}

/* Reaches what the words in [from, to) point to. */
static void scan(uintptr_t from, uintptr_t to)
{
    for (from = (from + WORD - 1) / WORD * WORD; from + WORD <= to; from += WORD) {
        block *b = block_at(*(const uintptr_t *)from);
        if (b) reach(b);
    }
}

static void scan_reached(void)
{
    while (waiting > 0) {
        const block *b = &blocks[to_scan[--waiting]];
        scan(b->at, b->at + b->bytes);
    }
}

static int scan_object(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t at = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_TLS) at = (uintptr_t)object->dlpi_tls_data;
        else if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W)) continue;
        if (at) scan(at, at + segment->p_memsz);
    }
    return 0;
}

/* The mapping that the address is in. */
static void find_mapping(uintptr_t *from, uintptr_t *to, uintptr_t address)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    *from = *to = address;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= address && address < high) {
            *from = low;
            *to = high;
        }
    }
    if (maps) fclose(maps);
}

/* The stack from `frame` on, and what the C library keeps for this thread (pthread_setspecific). */
static void scan_thread(uintptr_t frame)
{
    uintptr_t from, to, self = (uintptr_t)__builtin_thread_pointer();
    find_mapping(&from, &to, frame);
    scan(frame, to);
    find_mapping(&from, &to, self);
    scan(self - from > THREAD_DESCRIPTOR ? self - THREAD_DESCRIPTOR : from, self);
}

static int find_linker(struct dl_phdr_info *object, size_t size, void *out)
{
    (void)size;
    if (object->dlpi_addr != getauxval(AT_BASE)) return 0;
    uintptr_t *range = out;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t end = object->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        if (segment->p_type == PT_LOAD && end > range[1]) range[1] = end;
    }
    range[0] = object->dlpi_addr;
    return 1;
}

/* The dynamic linker keeps addresses where nobody else looks: its blocks are never lost. */
static void reach_blocks_of_linker(void)
{
    uintptr_t range[2] = {0};
    dl_iterate_phdr(find_linker, range);
    for (size_t i = 0; i < used; i++) {
        void *trace[2]; // malloc, and who called it
        int thread;
        if (blocks[i].reached) continue;
        size_t depth = __asan_get_alloc_stack((void *)blocks[i].at, trace, 2, &thread);
        uintptr_t caller = depth == 2 ? (uintptr_t)trace[1] : 0;
        if (caller >= range[0] && caller < range[1]) reach(&blocks[i]);
    }
    scan_reached();
}

/* --- the end of the process ------------------------------------------------------------------- */

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) count += task->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count;
}

/* Those that were joined may take a moment to vanish. */
static int count_other_threads(void)
{
    int others = count_threads() - 1;
    for (int i = 0; i < 500 && others > 0; i++) {
        usleep(2000);
        others = count_threads() - 1;
    }
    return others;
}

/* Blocks that only lost blocks point to are lost with those, and less interesting. */
static void mark_held(void)
{
    for (size_t i = 0; i < used; i++) {
        uintptr_t end = blocks[i].at + blocks[i].bytes;
        if (blocks[i].reached) continue;
        for (uintptr_t word = blocks[i].at; word + WORD <= end; word += WORD) {
            block *b = block_at(*(const uintptr_t *)word);
            if (b && b != &blocks[i]) b->held = true;
        }
    }
}

/* Whether a library of NVIDIA has lost it: they leave some bytes behind where there is no GPU. */
static bool is_foreign(const block *b)
{
    static const char *const names[] = {"/libcublas", "/libcudnn", "/libnvrtc"};
    void *trace[DEPTH];
    const size_t depth = __asan_get_alloc_stack((void *)b->at, trace, DEPTH, &(int){0});
    for (size_t i = 0; i < depth; i++) {
        Dl_info where;
        if (!dladdr(trace[i], &where) || !where.dli_fname) continue;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strstr(where.dli_fname, names[k])) return true;
    }
    return false;
}

static size_t show(bool held)
{
    size_t count = 0;
    for (size_t i = 0; i < used; i++) {
        if (blocks[i].reached || blocks[i].held != held || is_foreign(&blocks[i])) continue;
        if (count++ >= SHOWN) continue;
        fprintf(stderr, "leaks: %zu bytes%s\n", blocks[i].bytes, held ? ", held by others" : "");
        __asan_describe_address((void *)blocks[i].at);
    }
    return count;
}

static void look(int status, void *unused)
{
    (void)status, (void)unused;
    jmp_buf registers;
    setjmp(registers); // NOLINT: nobody jumps
    int others = count_other_threads();
    looking = true;
    sort_table();
    scan((uintptr_t)&registers, (uintptr_t)(&registers + 1));
    dl_iterate_phdr(scan_object, NULL);
    scan_thread((uintptr_t)__builtin_frame_address(0));
    scan_reached();
    reach_blocks_of_linker();
    mark_held();
    size_t lost = show(false), held = show(true);
    if (lost + held + (size_t)others == 0) return;
    fprintf(stderr, "leaks: %zu blocks, %zu more that they hold, %d threads still run\n", lost,
            held, others);
    fflush(NULL);
    _exit(EXIT_LEAKS);
}

static void lock_table(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_table(void)
{
    pthread_mutex_unlock(&lock);
}

static void begin(void)
{
    __sanitizer_install_malloc_and_free_hooks(after_malloc, before_free);
    pthread_atfork(lock_table, unlock_table, unlock_table);
    on_exit(look, NULL);
}

/* Before all constructors: what is registered first is called last, after their destructors. */
__attribute__((section(".preinit_array"), used)) static void (*const begin_first)(void) = begin;
