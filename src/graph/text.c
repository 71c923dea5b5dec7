#include <inttypes.h>
#include <string.h>
#include <tilth/desc/yaml.h>

#include "graph/graph.h"

/* --- names ------------------------------------------------------------------------------------ */

// "%12" for what a call makes, else where it comes from.
static void add_name(const tl_graph *g, const tl_tensor *t, tl_str *out)
{
    if (t->node) {
        tl_str_addf(out, "%%%" PRId64, t->node->index);
        if (t->node->outputs > 1) tl_str_addf(out, ".%d", t->output);
        return;
    }
    for (int64_t i = 0; i < g->input_count; i++)
        if (g->inputs[i].tensor == t) {
            tl_str_addf(out, "@%s", g->inputs[i].name);
            return;
        }
    for (int64_t i = 0; i < g->outside.count; i++)
        if (g->outside.items[i].header == t) tl_str_addf(out, "$%" PRId64, i);
}

static void add_spec(const tl_tensor *t, tl_str *out)
{
    char spec[TL_TENSOR_TEXT];
    tl_str_add(out, tl_tensor_spec(spec, t));
}

// "{axes: [0], keep_dims: false}": attributes are flat, so each line of the document is one of
// them.
static void add_attr(const tl_node *n, tl_str *out)
{
    tl_str text = TL_STR_INIT;
    if (n->op->attr && n->attr && tl_yaml_write(&text, n->op->attr, n->attr) == TL_OK) {
        const char *separator = " {";
        for (const char *line = tl_str_text(&text); *line;) {
            size_t length = strcspn(line, "\n");
            tl_str_add(out, separator);
            tl_str_addn(out, line, length);
            separator = ", ";
            line += length + (line[length] == '\n');
        }
        if (*separator == ',') tl_str_addc(out, '}');
    }
    tl_str_deinit(&text);
}

static void add_indented(const char *text, tl_str *out)
{
    tl_str_add(out, "        ");
    for (; *text; text++) {
        tl_str_addc(out, *text);
        if (*text == '\n' && text[1]) tl_str_add(out, "        ");
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void add_call(const tl_graph *g, const tl_node *n, tl_str *out)
{
    tl_str_addf(out, "%%%-4" PRId64 " ", n->index);
    for (int i = 0; i < n->outputs; i++) {
        if (i) tl_str_add(out, ", ");
        add_spec(n->out[i], out);
    }
    tl_str_addf(out, "%s%s", n->outputs ? " = " : "", n->op->name);
    for (int i = 0; i < n->inputs; i++) {
        tl_str_addc(out, ' ');
        add_name(g, n->in[i], out);
    }
    add_attr(n, out);
    if (n->path && *n->path) tl_str_addf(out, "  # %s", n->path);
    tl_str_addc(out, '\n');
    if (n->op != &tli_op_nest) return;
    tl_str nest = TL_STR_INIT;
    tl_nest_text(n->attr, &nest);
    add_indented(tl_str_text(&nest), out);
    tl_str_deinit(&nest);
}

void tl_graph_text(const tl_graph *g, tl_str *out)
{
    tli_number_nodes((tl_graph *)g);
    for (int64_t i = 0; i < g->input_count; i++) {
        tl_str_addf(out, "@%s  ", g->inputs[i].name);
        add_spec(g->inputs[i].tensor, out);
        tl_str_addc(out, '\n');
    }
    for (int64_t i = 0; i < g->outside.count; i++) {
        tl_str_addf(out, "$%" PRId64 "  ", i);
        add_spec(g->outside.items[i].header, out);
        tl_str_addc(out, '\n');
    }
    TLI_EACH_NODE(g, n) add_call(g, n, out);
    for (int64_t i = 0; i < g->output_count; i++) {
        tl_str_addf(out, "%s = ", g->outputs[i].name);
        add_name(g, g->outputs[i].tensor, out);
        tl_str_addc(out, '\n');
    }
}

/* --- Graphviz --------------------------------------------------------------------------------- */

// Names are the caller's: quotes and backslashes stand for themselves.
static void add_quoted(const char *text, tl_str *out)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') tl_str_addc(out, '\\');
        tl_str_addc(out, *text);
    }
}

static void add_source(const tl_graph *g, const tl_tensor *t, tl_str *out)
{
    tl_str name = TL_STR_INIT;
    if (t->node) tl_str_addf(&name, "%%%" PRId64, t->node->index);
    else add_name(g, t, &name);
    add_quoted(tl_str_text(&name), out);
    tl_str_deinit(&name);
}

// The end of an edge; what goes out of the graph is drawn apart from what may have its name.
static void add_edge(const tl_graph *g, const tl_tensor *from, const char *mark, const char *to,
                     tl_str *out)
{
    tl_str_add(out, "  \"");
    add_source(g, from, out);
    tl_str_addf(out, "\" -> \"%s", mark);
    add_quoted(to, out);
    tl_str_add(out, "\" [label=\"");
    add_spec(from, out);
    tl_str_add(out, "\"];\n");
}

static void add_end(const char *mark, const char *name, tl_str *out)
{
    tl_str_addf(out, "  \"%s", mark);
    add_quoted(name, out);
    tl_str_add(out, "\" [shape=ellipse];\n");
}

static void add_box(const tl_node *n, const char *name, tl_str *out)
{
    const char *style = tli_is_view(n)          ? ", style=dashed"
                        : n->op == &tli_op_nest ? ", style=filled"
                                                : "";
    tl_str_addf(out, "  \"%s\" [label=\"%s\\n", name, n->op->name);
    add_quoted(n->path ? n->path : "", out);
    tl_str_addf(out, "\"%s];\n", style);
}

void tl_graph_dot(const tl_graph *g, tl_str *out)
{
    tli_number_nodes((tl_graph *)g);
    tl_str_add(out, "digraph program {\n  node [shape=box, fontname=\"monospace\"];\n");
    for (int64_t i = 0; i < g->input_count; i++) add_end("@", g->inputs[i].name, out);
    TLI_EACH_NODE(g, n) {
        char name[24];
        snprintf(name, sizeof name, "%%%" PRId64, n->index);
        add_box(n, name, out);
        for (int i = 0; i < n->inputs; i++) add_edge(g, n->in[i], "", name, out);
    }
    for (int64_t i = 0; i < g->output_count; i++) {
        add_end("=", g->outputs[i].name, out);
        add_edge(g, g->outputs[i].tensor, "=", g->outputs[i].name, out);
    }
    tl_str_add(out, "}\n");
}
