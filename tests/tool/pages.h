/* What the pages for people tell them to type: commands in blocks and in sentences of Markdown, and
 * in the examples of the manual page; and what a page says that a command answers. */
#ifndef TILTH_TESTS_TOOL_PAGES_H
#define TILTH_TESTS_TOOL_PAGES_H

#include "zoo/zoo_lab.h"

enum { MOST_COMMANDS = 400 };

typedef struct page_command {
    const char *page; // as README.md
    const char *text; // on one line, with one space between words
    tl_str answer;    // lines that are quoted behind it
} page_command;

typedef struct page_reader {
    const char *page;
    page_command items[MOST_COMMANDS];
    int count;
    tl_str text;  // of the command that is being read
    bool inside;  // a block
    bool prompts; // which has lines that begin with "$ "
    bool open;    // the command goes on in the next line
    int asked;    // the number of commands when the last one was at a prompt: an answer may follow
} page_reader;

static inline void page_forget(page_reader *r)
{
    for (int i = 0; i < r->count; i++) tl_str_deinit(&r->items[i].answer);
    tl_str_deinit(&r->text);
    *r = (page_reader){0};
}

static inline const char *one_line(const char *text, size_t length)
{
    tl_str s = TL_STR_INIT;
    for (size_t i = 0; i < length; i++) {
        bool space = text[i] == ' ' || text[i] == '\n';
        if (!space) tl_str_addc(&s, text[i]);
        else if (s.length && s.data[s.length - 1] != ' ') tl_str_addc(&s, ' ');
    }
    while (s.length && s.data[s.length - 1] == ' ') tl_str_cut(&s, s.length - 1);
    const char *found = tl_str_copy(&s, lab_arena);
    assert_non_null(found);
    tl_str_deinit(&s);
    return found;
}

static inline void page_add(page_reader *r, const char *text, size_t length)
{
    assert_true(r->count < MOST_COMMANDS);
    r->items[r->count++] = (page_command){.page = r->page, .text = one_line(text, length)};
}

/* A line of a block, which `\`, or `\e` in the manual page, carries on. */
static inline void page_block_line(page_reader *r, const char *line, size_t length)
{
    bool prompt = length > 2 && line[0] == '$' && line[1] == ' ';
    r->prompts |= prompt;
    bool begins =
        prompt
        || (!r->prompts
            && (strncmp(line, "tilth ", 6) == 0 || strncmp(line, "./build.sh ", 11) == 0));
    if (!r->open && !begins) {
        if (!r->count || r->asked != r->count) return;
        tl_str_addn(&r->items[r->count - 1].answer, line, length);
        tl_str_addc(&r->items[r->count - 1].answer, '\n');
        return;
    }
    if (!r->open) tl_str_cut(&r->text, 0);
    if (prompt) line += 2, length -= 2;
    const char *comment = memmem(line, length, " #", 2);
    if (comment) length = (size_t)(comment - line);
    size_t mark = length && line[length - 1] == '\\'                        ? 1
                  : length > 1 && strncmp(line + length - 2, "\\e", 2) == 0 ? 2
                                                                            : 0;
    r->open = mark > 0;
    tl_str_addn(&r->text, line, length - mark);
    if (r->open) return;
    page_add(r, tl_str_text(&r->text), r->text.length);
    if (r->prompts) r->asked = r->count;
}

/* `code` in a paragraph, which may go over the end of a line. */
static inline void page_sentences(page_reader *r, const char *text, size_t length)
{
    const char *end = text + length, *from;
    while ((from = memchr(text, '`', (size_t)(end - text)))) {
        const char *to = memchr(from + 1, '`', (size_t)(end - from - 1));
        if (!to) return;
        bool command =
            strncmp(from + 1, "tilth ", 6) == 0 || strncmp(from + 1, "./build.sh ", 11) == 0;
        if (command) page_add(r, from + 1, (size_t)(to - from - 1));
        text = to + 1;
    }
}

static inline const char *line_end(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static inline void read_markdown(page_reader *r, const char *text)
{
    const char *prose = text;
    bool code = false; // in a block of another language
    for (const char *line = text, *next; *line; line = next) {
        const char *begin = line + strspn(line, " ");
        next = line_end(line);
        if (strncmp(begin, "```", 3) != 0) {
            if (r->inside && !code) page_block_line(r, begin, strcspn(begin, "\n"));
            continue;
        }
        if (!r->inside) page_sentences(r, prose, (size_t)(line - prose));
        r->inside = !r->inside;
        r->prompts = false;
        code = begin[3] != '\n';
        prose = next;
    }
    page_sentences(r, prose, strlen(prose));
}

static inline void read_manual(page_reader *r, const char *text)
{
    for (const char *line = text, *next; *line; line = next) {
        next = line_end(line);
        if (strncmp(line, ".Bd", 3) == 0) r->inside = true;
        else if (strncmp(line, ".Ed", 3) == 0) r->inside = false;
        else if (r->inside) page_block_line(r, line, strcspn(line, "\n"));
    }
}

#endif
