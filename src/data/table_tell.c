/* What was found about a table, told to people. */
#include <inttypes.h>
#include <string.h>

#include "data/table_find.h"

enum { MOST_TOLD = 40, CLASSES_TOLD = 20 };

static void tell_number(tl_str *out, const tli_table_search *s, const tli_table_column *k)
{
    int64_t other = k->texts + (k->kind == TLI_COLUMN_DATE ? k->numbers.count : k->dates.count);
    tl_str_add(out, k->name);
    if (k->kind == TLI_COLUMN_DATE) tl_str_add(out, " (date, as days)");
    if (k->logarithm) tl_str_add(out, " (logarithm)");
    if (k->counts_rows && k->kind == TLI_COLUMN_NUMBER && s->seen > 2)
        tl_str_add(out, " (counts the rows)");
    if (k->missing)
        tl_str_addf(out, " (%.1f %% missing)", 100 * (double)k->missing / (double)s->training);
    if (other)
        tl_str_addf(out, " (%" PRId64 " text%s taken as missing, line %" PRId64 ")", other,
                    other == 1 ? "" : "s", k->odd_line);
}

static void tell_category(tl_str *out, const tli_table_search *s, const tli_table_column *k,
                          const tl_table_schema *schema)
{
    const tl_table_category *all = schema->categories.items;
    int64_t different = tl_map_count(&k->values), kept = 0;
    for (int64_t i = 0; i < schema->categories.count; i++)
        if (strcmp(all[i].name, k->name) == 0) kept = all[i].values.count;
    tl_str_addf(out, "%s (%" PRId64 " values", k->name, different);
    if (kept < different) tl_str_addf(out, ", %" PRId64 " rare ones as one", different - kept);
    if (k->missing)
        tl_str_addf(out, ", %.1f %% missing", 100 * (double)k->missing / (double)s->training);
    tl_str_addc(out, ')');
}

static void tell_columns(tl_str *out, const tli_table_search *s, const tl_table_schema *schema,
                         const char *title, int kinds)
{
    int64_t told = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const tli_table_column *k = &s->columns[i];
        if (i == s->target || !(kinds >> k->kind & 1) || told++ >= MOST_TOLD) continue;
        tl_str_add(out, told == 1 ? title : ", ");
        if (k->kind == TLI_COLUMN_CATEGORY) tell_category(out, s, k, schema);
        else if (k->kind == TLI_COLUMN_LEFT_OUT) tl_str_addf(out, "%s (%s)", k->name, k->why);
        else tell_number(out, s, k);
    }
    if (told > MOST_TOLD) tl_str_addf(out, " and %" PRId64 " more", told - MOST_TOLD);
}

static void tell_target(tl_str *out, const tli_table_search *s, const tl_table_schema *schema)
{
    const tli_table_moments *m = &s->columns[s->target].numbers;
    bool given = s->args->target && *s->args->target;
    tl_str_addf(out, "\n  target: %s%s, ", schema->target,
                given ? "" : " (the last column; task.target=NAME for another)");
    if (schema->kind == TL_TABLE_REGRESSION) {
        tl_str_addf(out, "regression: from %g to %g, mean %g", m->least, m->most, m->mean);
        return;
    }
    tl_str_addf(out, "classification: %" PRId64 " classes:", schema->class_names.count);
    for (int64_t i = 0; i < schema->class_names.count && i < CLASSES_TOLD; i++) {
        int64_t times = (int64_t)(intptr_t)tl_map_get(&s->classes, schema->class_names.items[i]);
        tl_str_addf(out, "%s %s %.1f %%", i ? "," : "", schema->class_names.items[i],
                    100 * (double)times / (double)s->rows);
    }
    if (schema->class_names.count > CLASSES_TOLD) tl_str_add(out, ", ...");
    if (!s->columns[s->target].texts && s->args->kind == TL_TABLE_AUTO)
        tl_str_add(out, " (task.kind=regression for numbers)");
}

static void warn_of_missing(tl_str *out, const tli_table_search *s)
{
    int64_t rows = 0, texts = tl_map_count(&s->missing_texts);
    for (int64_t i = 0; i < texts; i++) rows += (int64_t)(intptr_t)tl_map_at(&s->missing_texts, i);
    if (!rows) return;
    tl_str_addf(out, "%s: %" PRId64 " row%s left out, as ", s->args->paths[0], rows,
                rows == 1 ? " is" : "s are");
    for (int64_t i = 0; i < texts; i++)
        tl_str_addf(out, "%s'%s'",
                    !i              ? ""
                    : i + 1 < texts ? ", "
                                    : " or ",
                    tl_map_key(&s->missing_texts, i));
    tl_str_addf(out,
                " in the column '%s', the target, counts as missing; a class needs another name\n",
                s->names[s->target]);
}

/* What may be meant otherwise, and what to do then. */
static tl_status warn(tl_table_findings *found, const tli_table_search *s)
{
    tl_str out = TL_STR_INIT;
    if (s->likely_name)
        tl_str_addf(&out,
                    "%s:1: the first line is taken for a row, though '%.80s' stands above numbers "
                    "in it; task.train_data.header=first_line takes it for names of columns\n",
                    s->args->paths[0], s->likely_name);
    warn_of_missing(&out, s);
    if (out.length) tl_str_cut(&out, out.length - 1);
    tl_status st = tl_str_status(&out);
    if (st == TL_OK && out.length && !(found->warnings = tl_str_copy(&out, s->args->arena)))
        st = TL_ENOMEM;
    tl_str_deinit(&out);
    return st;
}

tl_status tli_table_tell(tl_table_findings *found, const tli_table_search *s,
                         const tl_table_schema *schema)
{
    tl_str out = TL_STR_INIT;
    TL_TRY(warn(found, s));
    tl_str_addf(&out, "%s%s: %" PRId64 " rows, %" PRId64 " columns", s->args->paths[0],
                s->args->path_count > 1 ? " and others" : "", s->rows, s->count);
    if (s->delimiter)
        tl_str_addf(&out, ", separated by %s",
                    s->delimiter == '\t' ? "tabs" : (char[]){'\'', s->delimiter, '\'', 0});
    if (s->decimal_comma) tl_str_add(&out, ", with decimal commas");
    if (s->delimiter)
        tl_str_add(&out, s->has_header ? ", named by the first line" : ", without names");
    if (s->without)
        tl_str_addf(&out, "; %" PRId64 " row%s without a target left out", s->without,
                    s->without == 1 ? "" : "s");
    if (s->not_utf8)
        tl_str_addf(&out, "; %" PRId64 " cells are no UTF-8 and read as Latin-1", s->not_utf8);
    tell_target(&out, s, schema);
    tell_columns(&out, s, schema, "\n  numbers: ", 1 << TLI_COLUMN_NUMBER | 1 << TLI_COLUMN_DATE);
    tell_columns(&out, s, schema, "\n  categories: ", 1 << TLI_COLUMN_CATEGORY);
    tell_columns(&out, s, schema, "\n  left out: ", 1 << TLI_COLUMN_LEFT_OUT);
    if (s->args->held_out > 0)
        tl_str_addf(&out, "\n  for validation: %" PRId64 " of the rows, chosen by their contents",
                    s->rows - s->training);
    found->report = tl_str_copy(&out, s->args->arena);
    tl_str_deinit(&out);
    return found->report ? TL_OK : TL_ENOMEM;
}
