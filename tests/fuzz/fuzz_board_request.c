/* What browsers, and others, may ask the page. The input is a path and a query; the runs are always
 * the same. Whatever is asked has an answer, which is JSON where it says so. */
#include "fuzz.h"

#include <jansson.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/tensorflow/event_file.h>

#include "../temporary.h"
#include "board/answer.h"
#include "board/guard.h"

static tli_store *store;
static char folder[] = "/tmp/tilth-fuzz-board-XXXXXX";

static void clean_up(void)
{
    tli_store_free(&store);
    remove_tree(folder);
}

/* In the folder; the fuzzer's own paths are relative, so that nobody goes there. */
static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    const char *path = in_folder(name);
    must(tl_file_write_atomic(path, text, strlen(text)) == TL_OK, "cannot be written");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *where = folder;
    tl_event_file *f;
    tl_log_set_level(TL_LEVEL_NONE);
    must(mkdtemp(folder) != NULL, "no folder");
    must(tl_event_file_open(&f, &(tl_event_file_args){.folder = in_folder("one/train")}) == TL_OK,
         "no file");
    for (int64_t i = 0; i < 40; i++) {
        must(tl_event_file_scalar(f, i, "loss", i == 7 ? 0.0 / 0.0 : 1.0 / (double)(i + 1)) == TL_OK
                 && tl_event_file_scalar(f, i, "a/b \"c\" <d>", (double)i) == TL_OK,
             "cannot be written");
        if (i % 20 == 0)
            must(tl_event_file_text(f, i, "words", "some \"words\" </script>") == TL_OK, "no text");
    }
    tl_event_file_close(&f);
    write_file("one/params.yaml", "trainer: {train_steps: 300}\ntask: {model: x}\n");
    write_file("one/log.txt", "first\nsecond\n");
    write_file("one/confusion.json", "{}");
    must(tli_store_new(&store, &(tli_store_args){.folders = {&where, 1}}) == TL_OK, "no store");
    must(tli_store_look(store) == TL_OK && store->runs.count == 1, "no run");
    atexit(clean_up);
    return 0;
}

typedef struct query {
    char *names[16], *values[16];
    int count;
} query;

static const char *arg_of(void *payload, const char *name)
{
    const query *q = payload;
    for (int i = 0; i < q->count; i++)
        if (strcmp(q->names[i], name) == 0) return q->values[i];
    return NULL;
}

/* %41 is A; in place. */
static void decode(char *text)
{
    char *out = text;
    for (; *text; text++) {
        unsigned byte;
        if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1 && text[1] && text[2] && byte) {
            *out++ = (char)byte;
            text += 2;
        } else {
            *out++ = *text;
        }
    }
    *out = '\0';
}

/* Answers that open files take ten times as long as others: not all of them are made. */
static bool opens_files(const char *path)
{
    static const char *const paths[] = {"/api/files", "/api/log",   "/api/weights",
                                        "/api/image", "/api/media", "/api/reports"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(path, paths[i]) == 0) return true;
    return false;
}

static void ask(char *text, bool chosen)
{
    query q = {.count = 0};
    tli_answer a = TLI_ANSWER_INIT;
    char *args = strchr(text, '?');
    if (args) *args++ = '\0';
    for (char *at = args; at && q.count < 16;) {
        char *next = strchr(at, '&');
        if (next) *next++ = '\0';
        char *value = strchr(at, '=');
        if (value) {
            *value++ = '\0';
            decode(at);
            decode(value);
            q.names[q.count] = at;
            q.values[q.count++] = value;
        }
        at = next;
    }
    decode(text);
    if (opens_files(text) && !chosen) return;
    tli_board_answer(&a, store, &(tli_request){.path = text, .arg = arg_of, .payload = &q});
    must(a.status == 200 || a.status == 404, "an answer of another kind");
    if (chosen && a.status == 200 && strcmp(a.type, "application/json") == 0) {
        json_t *j = json_loadb(tl_str_text(&a.body), a.body.length, 0, NULL);
        must(j != NULL, "an answer that is no JSON");
        json_decref(j);
    }
    tli_answer_deinit(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL, "no memory");
    memcpy(text, data, size);
    text[size] = '\0';
    // The same bytes as the head of a request: only names of this machine are let in.
    const char *why =
        tli_guard_refuses(&(tli_guard){.loopback = true}, &(tli_guard_request){.host = text});
    must(why || strncmp(text, "localhost", 9) == 0 || strncmp(text, "127.", 4) == 0 || *text == '[',
         "another name is let in");
    ask(text, is_chosen(data, size, 16));
    free(text);
    return 0;
}
