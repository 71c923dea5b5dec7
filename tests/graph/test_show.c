/* What is checked of graphs, and what is shown of graphs and programs. */
#include "graph/graph_test.h"

#include <inttypes.h>
#include <tilth/desc/yaml.h>
#include <tilth/ops/gradient.h>
#include <tilth/sys/graph/program.h>

#include "graph/graph.h"

/* --- broken graphs ---------------------------------------------------------------------------- */

BODY(ordinary)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, x), *t = tl_swap_axes(c, e, 0, 1), *n = tl_neg(c, y);
    tl_tensors_put(c, out, "z", tl_matmul(c, n, t));
}

static tl_node *nth(const tl_graph *g, int index)
{
    tl_node *n = g->ctx->first;
    while (index-- > 0) n = n->after;
    return n;
}

enum { EXP, TURN, NEG, PRODUCT };

static void set_input(tl_node *n, int i, tl_tensor *t)
{
    ((tl_tensor **)n->in)[i] = t;
}

static void tear(tl_graph *g)
{
    nth(g, NEG)->before = nth(g, EXP);
}
static void lose_the_end(tl_graph *g)
{
    g->ctx->last = nth(g, NEG);
}
static void use_early(tl_graph *g)
{
    // this is fine, and so is what follows but for the last
    assert_ok(tli_move(g, nth(g, NEG), nth(g, EXP)));
    assert_ok(tl_graph_verify(g));
    assert_ok(tli_move(g, nth(g, 2), nth(g, 1)));
}
static void make_twice(tl_graph *g)
{
    ((tl_tensor **)nth(g, NEG)->out)[0] = nth(g, EXP)->out[0];
}
static void forget_the_maker(tl_graph *g)
{
    nth(g, NEG)->out[0]->node = nth(g, EXP);
}
static void lose_the_output(tl_graph *g)
{
    g->outputs[0].tensor = g->inputs[0].tensor;
}
static void change_shape(tl_graph *g)
{
    nth(g, NEG)->out[0]->shape.dims[0] = 5;
}
static void change_type(tl_graph *g)
{
    nth(g, EXP)->out[0]->dtype = TL_F64;
}
static void shift_view(tl_graph *g)
{
    nth(g, TURN)->out[0]->offset = 1;
}
static void straighten_view(tl_graph *g)
{
    nth(g, TURN)->out[0]->strides[0] = 4;
}
static void move_view(tl_graph *g)
{
    nth(g, TURN)->out[0]->view_of = nth(g, NEG)->out[0];
}
static void make_a_view(tl_graph *g)
{
    nth(g, NEG)->out[0]->view_of = nth(g, EXP)->out[0];
}
static void leave_gaps(tl_graph *g)
{
    nth(g, EXP)->out[0]->contiguous = false;
}
static void change_input(tl_graph *g)
{
    set_input(nth(g, PRODUCT), 1, nth(g, NEG)->out[0]); // 4x6 times 4x6
}

static void broken_graphs_are_found(void **state)
{
    static const struct {
        void (*break_it)(tl_graph *g);
        tl_status code;
        const char *text;
    } cases[] = {
        {tear, TL_EINTERNAL, "at call 1, transpose: the list of calls is torn"},
        {lose_the_end, TL_EINTERNAL, "at call 4, copy: the list of calls is torn"},
        {use_early, TL_EINTERNAL, "at call 1, transpose: an input is used before it is made"},
        {make_twice, TL_EINTERNAL, "at call 2, neg: an output is made twice"},
        {forget_the_maker, TL_EINTERNAL, "at call 2, neg: an output does not know its call"},
        {lose_the_output, TL_EINTERNAL, "nothing makes its output 'z'"},
        {change_shape, TL_EINTERNAL, "at call 2, neg: an output has another type or shape"},
        {change_type, TL_EINTERNAL, "at call 0, exp: an output has another type or shape"},
        {shift_view, TL_EINTERNAL, "at call 1, transpose: the view shows other elements"},
        {straighten_view, TL_EINTERNAL, "at call 1, transpose: the view shows other elements"},
        {move_view, TL_EINTERNAL, "at call 1, transpose: an output's memory is not where"},
        {make_a_view, TL_EINTERNAL, "at call 2, neg: an output's memory is not where"},
        {leave_gaps, TL_EINTERNAL, "at call 0, exp: an output's memory is not where"},
        {change_input, TL_EINVAL, "the graph is broken at call 3, matmul"},
    };
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        tl_graph *g = captured(*state, ordinary, NULL);
        assert_ok(tl_graph_verify(g));
        cases[i].break_it(g);
        assert_fails(tl_graph_verify(g), cases[i].code, cases[i].text);
        tl_graph_free(&g);
    }
}

/* --- drawings --------------------------------------------------------------------------------- */

BODY(oddly_named)
{
    UNUSED_BODY_ARGS;
    tl_ctx_enter(c, "quo\"ted\\ {\tand more");
    tl_tensor *e = tl_exp(c, tl_add(c, x, self));
    tl_tensors_put(c, out, "z \"}", tl_matmul(c, e, tl_swap_axes(c, tl_abs(c, y), 0, 1)));
    tl_ctx_leave(c);
}

typedef struct counted {
    int64_t braces, brackets, edges, boxes;
    bool balanced;
} counted;

// Outside of strings; dot ends strings at a quote that has no backslash before it.
static counted count_marks(const char *text)
{
    counted n = {.balanced = true};
    bool inside = false;
    for (const char *p = text; *p; p++) {
        if (inside) {
            if (*p == '\\') p++;
            else inside = *p != '"';
            continue;
        }
        inside = *p == '"';
        n.braces += (*p == '{') - (*p == '}');
        n.brackets += (*p == '[') - (*p == ']');
        n.edges += strncmp(p, "->", 2) == 0;
        n.boxes += *p == '\n';
        n.balanced &= n.braces >= 0 && n.brackets >= 0 && n.brackets <= 1;
    }
    n.balanced &= !inside && n.braces == 0 && n.brackets == 0;
    return n;
}

static void expect_drawing(const tl_graph *g)
{
    tl_str text = TL_STR_INIT;
    int64_t edges = g->output_count, boxes = g->input_count + g->output_count;
    TLI_EACH_NODE(g, n) {
        boxes++;
        edges += n->inputs;
    }
    tl_graph_dot(g, &text);
    assert_ok(tl_str_status(&text));
    counted is = count_marks(tl_str_text(&text));
    assert_true(is.balanced);
    assert_int_equal(is.edges, edges);
    assert_int_equal(is.boxes, boxes + edges + 3); // a line each, and those of the frame
    assert_memory_equal(tl_str_text(&text), "digraph program {\n", 18);
    tl_str_deinit(&text);
}

static void drawings_can_be_parsed(void **state)
{
    fixture *f = *state;
    tl_graph *g = captured(f, oddly_named, tl_full(f->c, TL_F32, TL_SHAPE(6), 1));
    expect_drawing(g);
    assert_ok(tl_graph_optimize(g, NULL));
    assert_int_equal(count_ops(g, "nest"), 1);
    expect_drawing(g);
    tl_graph_free(&g);
}

/* --- programs --------------------------------------------------------------------------------- */

static void run(fixture *f, tl_program *p)
{
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 0.5));
    tl_tensors_put(f->c, &in, "y", tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 2));
    assert_ok(tl_program_run(p, f->c, &in, &out));
}

static tl_program *made(fixture *f)
{
    tl_program *p;
    tl_graph *g = captured(f, oddly_named, tl_full(f->c, TL_F32, TL_SHAPE(6), 1));
    assert_ok(tl_graph_optimize(g, NULL));
    assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "shown"}));
    return p;
}

/* Where a JSON value that begins at `p` ends; NULL: it is none. Stricter than YAML. */
static const char *json_value(const char *p);

static const char *json_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

static const char *json_string(const char *p)
{
    if (*p++ != '"') return NULL;
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < ' ') return NULL;
        if (*p != '\\') continue;
        if (*++p == 'u' ? strspn(p + 1, "0123456789abcdefABCDEF") < 4
                        : !*p || !strchr("\"\\/bfnrt", *p))
            return NULL;
    }
    return p + 1;
}

static const char *json_number(const char *p)
{
    size_t digits;
    p += *p == '-';
    if (!(digits = strspn(p, "0123456789")) || (*p == '0' && digits > 1)) return NULL;
    p += digits;
    if (*p != '.') return p;
    digits = strspn(p + 1, "0123456789");
    return digits ? p + 1 + digits : NULL;
}

static const char *json_items(const char *p, char end, bool keys)
{
    for (p = json_space(p + 1); *p != end;) {
        if (keys && (!(p = json_string(p)) || *(p = json_space(p)) != ':')) return NULL;
        p = json_value(json_space(p + keys));
        if (!p) return NULL;
        p = json_space(p);
        if (*p == end) break;
        if (*p != ',') return NULL;
        p = json_space(p + 1);
        if (*p == end) return NULL;
    }
    return p + 1;
}

static const char *json_value(const char *p)
{
    switch (*p) {
    case '{': return json_items(p, '}', true);
    case '[': return json_items(p, ']', false);
    case '"': return json_string(p);
    default: return json_number(p);
    }
}

static void json_is_told_from_what_is_none(void **state)
{
    static const char *const good[] = {"{}", "[1, -2.5, \"a\\\"\\u0009\", {\"b\": [ ]}]",
                                       "{\"a\": 1,\n\"b\": 0}"};
    static const char *const bad[] = {"{a: 1}", "[1,]",    "\"\t\"", "[01]",     "{\"a\" 1}",
                                      "[1",     "\"\\x\"", "nan",    "{\"a\": }"};
    (void)state;
    for (size_t i = 0; i < TL_COUNT(good); i++)
        assert_true(json_value(good[i]) && !*json_value(good[i]));
    for (size_t i = 0; i < TL_COUNT(bad); i++)
        assert_true(!json_value(bad[i]) || *json_value(bad[i]));
}

static double number_in(const tl_value *map, const char *key)
{
    double number = NAN;
    const tl_value *v = tl_value_get(map, key);
    assert_non_null(v);
    assert_true(tl_value_double(v, &number));
    return number;
}

static const char *text_in(const tl_value *map, const char *key)
{
    const tl_value *v = tl_value_get(map, key);
    assert_non_null(v);
    return v->text;
}

static void expect_event(const tl_value *event, const tl_node *n, double *end)
{
    double begin = number_in(event, "ts"), duration = number_in(event, "dur");
    assert_string_equal(text_in(event, "ph"), "X");
    assert_string_equal(text_in(event, "name"), n->op->name);
    assert_string_equal(text_in(event, "cat"), n->path);
    assert_true(begin >= *end - 0.002
                && duration >= 0); // one after the other; three digits are printed
    assert_near(number_in(tl_value_get(event, "args"), "flops"), tl_node_flops(n), 0);
    assert_near(number_in(tl_value_get(event, "args"), "bytes"), tl_node_bytes(n), 0);
    *end = begin + duration;
}

static void expect_trace(fixture *f, const tl_program *p, const char *text, size_t length)
{
    const tl_value *root;
    const char *end = json_value(text);
    if (!end || *json_space(end)) fail_msg("this is no JSON:\n%s", text);
    assert_ok(tl_yaml_parse(&root, tl_ctx_arena(f->c), text, length, "trace"));
    const tl_value *events = tl_value_get(root, "traceEvents");
    assert_int_equal(events->count, tl_graph_count(tl_program_graph(p)));
    int64_t i = 0;
    double time = 0;
    for (const tl_node *n = tl_graph_first(tl_program_graph(p)); n; n = n->after)
        if (!tli_is_view(n)) expect_event(events->items[i++], n, &time);
}

static void traces_are_json_with_an_event_a_kernel(void **state)
{
    fixture *f = *state;
    tl_program *p = made(f);
    tl_str text = TL_STR_INIT;
    tl_program_stats stats;
    run(f, p);
    assert_fails(tl_program_trace(p, &text), TL_ESTATE, "shown: no run was timed yet");
    tl_str_cut(&text, 0);
    tl_program_set_timing(p, true);
    run(f, p);
    assert_ok(tl_program_trace(p, &text));
    expect_trace(f, p, tl_str_text(&text), text.length);
    tl_program_measure(p, &stats);
    assert_int_equal(stats.kernels, tl_graph_count(tl_program_graph(p)));
    tl_str_deinit(&text);
    tl_program_free(&p);
}

static int64_t count_lines(const char *text, const char *with)
{
    int64_t count = 0;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        const char *found = strstr(line, with);
        count += found && found < line + length;
        line += length + (line[length] == '\n');
    }
    return count;
}

static void expect_report(const tl_program *p, bool timed)
{
    tl_str text = TL_STR_INIT;
    tl_program_report(p, NULL, &text);
    assert_ok(tl_str_status(&text));
    const char *report = tl_str_text(&text);
    tl_program_stats stats;
    tl_program_measure(p, &stats);
    char head[64];
    snprintf(head, sizeof head, "shown: %" PRId64 " kernels (%" PRId64 " nests, 0 compiled)",
             stats.kernels, stats.nests);
    assert_memory_equal(report, head, strlen(head));
    assert_int_equal(count_lines(report, " ms\n") || strstr(report, " ms\n"), timed);
    assert_int_equal(count_lines(report, ""), 2 + stats.kernels);
    for (const tl_node *n = tl_graph_first(tl_program_graph(p)); n; n = n->after) {
        char row[TL_TENSOR_TEXT + 32], spec[TL_TENSOR_TEXT];
        if (tli_is_view(n)) continue;
        snprintf(row, sizeof row, "  %-24s %s  ", n->op->name, tl_tensor_spec(spec, n->out[0]));
        assert_int_equal(count_lines(report, row), 1);
    }
    tl_str_deinit(&text);
}

static void reports_name_every_kernel(void **state)
{
    fixture *f = *state;
    tl_program *p = made(f);
    expect_report(p, false);
    run(f, p);
    expect_report(p, false);
    tl_program_set_timing(p, true);
    run(f, p);
    run(f, p);
    expect_report(p, true);
    tl_program_stats stats;
    tl_program_measure(p, &stats);
    double flops = 0, bytes = 0;
    for (const tl_node *n = tl_graph_first(tl_program_graph(p)); n; n = n->after) {
        flops += tli_is_view(n) ? 0 : tl_node_flops(n);
        bytes += tl_node_bytes(n);
    }
    assert_near(stats.flops, flops, 0);
    assert_near(stats.bytes, bytes, 0);
    assert_true(flops >= 2 * 4 * 4 * 6); // the product alone
    tl_program_free(&p);
}

static void programs_refuse_other_inputs(void **state)
{
    fixture *f = *state;
    tl_program *p = made(f);
    tl_tensors in = {0}, out = {0};
    assert_fails(tl_program_run(p, f->c, &in, &out), TL_EINVAL, "shown: there is no input 'x'");
    tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_F32, TL_SHAPE(4, 5), 1));
    assert_fails(tl_program_run(p, f->c, &in, &out), TL_EINVAL,
                 "input 'x' is float32[4, 5] and was captured as float32[4, 6]");
    tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_F64, TL_SHAPE(4, 6), 1));
    assert_fails(tl_program_run(p, f->c, &in, &out), TL_EINVAL, "input 'x' is float64[4, 6]");
    assert_int_equal(out.count, 0);
    run(f, p); // as if nothing had been
    tl_program_free(&p);
}

static void bytes_in_the_cache_are_not_compared_with_memory(void **state)
{
    fixture *f = *state;
    tl_program *p = made(f);
    tl_str text = TL_STR_INIT;
    tl_limits most = {.flops = 1e9, .half_flops = 1e9, .bytes = 1e-9, .cache = 1e6};
    tl_program_stats stats;
    tl_program_set_timing(p, true);
    run(f, p);
    tl_program_measure(p, &stats);
    // memory so slow that every call would be faster than possible
    tl_program_report(p, &most, &text);
    assert_int_equal(count_lines(tl_str_text(&text), "       0.0  cache  "), stats.kernels);
    tl_str_cut(&text, 0);
    most.cache = 0;
    tl_program_report(p, &most, &text);
    assert_int_equal(count_lines(tl_str_text(&text), "  cache  "), 0);
    tl_str_deinit(&text);
    tl_program_free(&p);
}

BODY(layered)
{
    UNUSED_BODY_ARGS;
    tl_tensor *g;
    tl_ctx_enter(c, "first");
    tl_tensor *a = tl_exp(c, x);
    tl_ctx_leave(c);
    tl_ctx_enter(c, "second");
    tl_tensor *b = tl_mul(c, a, y);
    tl_ctx_leave(c);
    if (tl_gradient(c, tl_sum(c, b, TL_AXES(0, 1), false), &x, 1, &g) == TL_OK)
        tl_tensors_put(c, out, "g", g);
}

/* What the gradient of a call is made of belongs to the module of that call. */
static void gradients_carry_the_names_of_their_modules(void **state)
{
    fixture *f = *state;
    tl_graph *g = captured(f, layered, NULL);
    tl_str seen = TL_STR_INIT;
    for (const tl_node *n = tl_graph_first(g); n; n = n->after)
        tl_str_addf(&seen, "%s:%s ", n->path, n->op->name);
    const char *text = tl_str_text(&seen), *after = strstr(text, "second:mul ");
    assert_non_null(after);
    if (!strstr(after + 1, "second:mul ") || !strstr(after + 1, "first:mul ")) fail_msg("%s", text);
    tl_str_deinit(&seen);
    tl_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(broken_graphs_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(drawings_can_be_parsed, setup, teardown),
        cmocka_unit_test(json_is_told_from_what_is_none),
        cmocka_unit_test_setup_teardown(traces_are_json_with_an_event_a_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(reports_name_every_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_in_the_cache_are_not_compared_with_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(gradients_carry_the_names_of_their_modules, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(programs_refuse_other_inputs, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
