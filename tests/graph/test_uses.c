/* What a graph keeps about uses of tensors and changes of memory: that it stays true while the list
 * is changed, that faults in it are found, and what follows from it, whether a call may run
 * elsewhere. */
#include "graph/graph_test.h"

#include "graph/graph.h"

static tl_node *nth(const tl_graph *g, const char *op, int number)
{
    TLI_EACH_NODE(g, n)
        if (strcmp(n->op->name, op) == 0 && number-- == 0) return n;
    fail_msg("there is no call of %s", op);
    return NULL;
}

static tl_node *only(const tl_graph *g, const char *op)
{
    return nth(g, op, 0);
}

/* --- kept up ---------------------------------------------------------------------------------- */

// A view of a view is written in place, and so is memory from outside; both are read before and
// after.
BODY(writes_and_views)
{
    UNUSED_BODY_ARGS;
    tl_tensor *state = self, *sum = tl_add(c, x, y);
    tl_tensor *flat = tl_reshape(c, sum, TL_SHAPE(24)), *row = tl_reshape(c, flat, TL_SHAPE(1, 24));
    tl_tensor *before = tl_exp(c, state), *early = tl_neg(c, row);
    tl_update_ema(c, row, tl_full(c, TL_F32, row->shape, 2), 0.5);
    tl_update_ema(c, state, tl_full(c, TL_F32, state->shape, 3), 0.25);
    tl_tensors_put(c, out, "a", tl_abs(c, sum));
    tl_tensors_put(c, out, "b", tl_square(c, state));
    tl_tensors_put(c, out, "c", before);
    tl_tensors_put(c, out, "d", early);
}

static tl_graph *with_state(fixture *f)
{
    return captured(f, writes_and_views, tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1));
}

static void uses_are_counted(void **state)
{
    tl_graph *g = with_state(*state);
    const tl_tensor *sum = only(g, "add")->out[0], *row = nth(g, "reshape", 1)->out[0];
    assert_ok(tl_graph_verify(g));
    assert_int_equal(tli_use_count(g, sum), 2); // a view, and abs
    assert_int_equal(tli_use_count(g, row), 2);
    assert_int_equal(tli_use_count(g, g->outputs[0].tensor), 1);
    assert_true(tli_is_output(g, g->outputs[0].tensor) && !tli_is_output(g, sum));
    assert_ptr_equal(tli_first_user(g, row), only(g, "neg"));
    assert_ptr_equal(tli_last_reader(g, row), only(g, "abs")); // of what the row shows
    assert_null(tli_first_user(g, g->outputs[0].tensor));
    assert_true(tli_is_read_after(g, row, only(g, "neg"), false));
    assert_false(tli_is_read_after(g, row, only(g, "abs"), false));
    assert_true(tli_is_read_after(g, row, only(g, "abs"), true));
    tl_graph_free(&g);
}

static void memory_is_known(void **state)
{
    tl_graph *g = with_state(*state);
    const tl_tensor *sum = only(g, "add")->out[0], *row = nth(g, "reshape", 1)->out[0];
    const tl_node *ema = nth(g, "update_ema", 0);
    assert_int_equal(tli_memory_id(g, sum), tli_memory_id(g, row));
    assert_int_not_equal(tli_memory_id(g, sum), tli_memory_id(g, g->inputs[0].tensor));
    assert_true(tli_is_written(g, sum) && tli_is_written(g, row));
    assert_false(tli_is_written(g, g->inputs[0].tensor));
    assert_int_equal(tli_changes_of(g, sum)->count, 1);
    assert_ptr_equal(tli_changer(g, &tli_changes_of(g, row)->items[0]), ema);
    assert_true(tli_is_changed_between(g, sum, only(g, "neg"), only(g, "abs")));
    assert_false(tli_is_changed_between(g, sum, only(g, "neg"), ema));
    assert_false(tli_is_changed_between(g, sum, ema, NULL));
    tl_graph_free(&g);
}

static void changes_of_the_list_are_followed(void **state)
{
    tl_graph *g = with_state(*state);
    tl_tensor *sum = only(g, "add")->out[0], *x = g->inputs[0].tensor;
    // The view and all that is seen and written through it shows another tensor.
    assert_ok(tli_set_input(g, nth(g, "reshape", 0), 0, x));
    assert_ok(tl_graph_verify(g));
    assert_true(tli_is_written(g, x) && !tli_is_written(g, sum));
    assert_int_equal(tli_memory_id(g, nth(g, "reshape", 1)->out[0]), tli_memory_id(g, x));
    assert_ok(tli_replace(g, x, g->inputs[1].tensor));
    assert_ok(tl_graph_verify(g));
    assert_int_equal(tli_use_count(g, x), 0);
    assert_false(tli_is_written(g, x));

    // Many moves to one place: orders are given anew when there is no room between two.
    for (int i = 0; i < 100; i++) {
        assert_ok(tli_move(g, nth(g, "full", i % 2), nth(g, "update_ema", 0)));
        assert_ok(tl_graph_verify(g));
    }
    tli_remove(g, nth(g, "update_ema", 1));
    assert_ok(tl_graph_verify(g));
    assert_false(tli_is_written(g, only(g, "square")->in[0]));
    tl_graph_free(&g);
}

static void new_calls_are_taken_in(void **state)
{
    fixture *f = *state;
    tl_graph *g = with_state(f);
    tl_node *last = g->ctx->last, *place = only(g, "abs");
    tl_tensor *twice = tl_scale(g->ctx, place->in[0], 2),
              *flat = tl_reshape(g->ctx, twice, TL_SHAPE(24));
    assert_fails(tl_graph_verify(g), TL_EINTERNAL, "it was not brought into the graph");
    assert_ok(tli_move_new(g, last, place));
    assert_ok(tl_graph_verify(g));
    assert_ptr_equal(flat->node->after, place);
    assert_int_equal(tli_use_count(g, twice), 1);
    assert_int_equal(tli_memory_id(g, flat), tli_memory_id(g, twice));
    tl_graph_free(&g);
}

/* --- faults ----------------------------------------------------------------------------------- */

static tli_graph_value *value(tl_graph *g, const tl_tensor *t)
{
    return &g->uses.values.items[tli_value_id(g, t)];
}

static void change_input(tl_graph *g)
{
    ((tl_tensor **)only(g, "exp")->in)[0] = g->inputs[0].tensor;
}
static void miscount(tl_graph *g)
{
    value(g, only(g, "add")->out[0])->count++;
}
static void lose_an_output(tl_graph *g)
{
    value(g, g->outputs[0].tensor)->outputs = 0;
}
static void tear_the_list(tl_graph *g)
{
    g->uses.uses.items[value(g, only(g, "add")->out[0])->last].before = -1;
}
static void tear_the_ring(tl_graph *g)
{
    value(g, nth(g, "reshape", 1)->out[0])->after = (int32_t)tli_value_id(g, g->inputs[0].tensor);
}
static void show_something_else(tl_graph *g)
{
    value(g, nth(g, "reshape", 1)->out[0])->maker = (int32_t)tli_value_id(g, g->inputs[0].tensor);
}
static void mix_memories(tl_graph *g)
{
    value(g, only(g, "abs")->out[0])->memory = (int32_t)tli_memory_id(g, g->inputs[0].tensor);
}
static void forget_a_write(tl_graph *g)
{
    tli_changes *c = &g->uses.changes.items[value(g, only(g, "add")->out[0])->changes];
    c->count = c->writes = 0;
}
static void write_twice(tl_graph *g)
{
    tli_changes *c = &g->uses.changes.items[value(g, only(g, "add")->out[0])->changes];
    assert_true(TL_VEC_PUSH(c, (tli_change){(int32_t)nth(g, "update_ema", 1)->id, false}));
    c->writes++;
}
static void turn_the_order(tl_graph *g)
{
    g->uses.calls.items[only(g, "neg")->id].order = 1;
}

static void faults_are_found(void **state)
{
    static const struct {
        void (*break_it)(tl_graph *g);
        const char *text;
    } cases[] = {
        {change_input, "more or fewer uses"},
        {miscount, "more or fewer uses"},
        {lose_an_output, "more or fewer uses"},
        {tear_the_list, "its list of uses is torn"},
        {tear_the_ring, "the ring of what shows the same is torn"},
        {show_something_else, "an output shows something else"},
        {mix_memories, "memories are taken for one"},
        {forget_a_write, "it changes memory, which is not noted"},
        {write_twice, "3 changes of memory are noted, and there are 2"},
        {turn_the_order, "its order is not that of the list"},
    };
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        tl_graph *g = with_state(*state);
        assert_ok(tl_graph_verify(g));
        cases[i].break_it(g);
        assert_fails(tl_graph_verify(g), TL_EINTERNAL, cases[i].text);
        tl_graph_free(&g);
    }
}

/* --- may it run elsewhere? -------------------------------------------------------------------- */

static void calls_move_where_nothing_changes(void **state)
{
    tl_graph *g = with_state(*state);
    tl_node *add = only(g, "add"), *exp = only(g, "exp"), *neg = only(g, "neg"),
            *abs = only(g, "abs");
    tl_node *square = only(g, "square"), *first = nth(g, "update_ema", 0),
            *second = nth(g, "update_ema", 1);
    // Not before what it reads is made, nor behind who needs it.
    assert_false(tli_may_move(g, neg, add));
    assert_false(tli_may_move(g, add, neg));
    assert_true(tli_may_move(g, exp, add));
    // Not past a write of what it reads, through views or not; past others it may.
    assert_true(tli_may_move(g, neg, first));
    assert_false(tli_may_move(g, neg, second));
    assert_true(tli_may_move(g, exp, second));
    assert_false(tli_may_move(g, exp, abs));
    assert_false(tli_may_move(g, abs, first));
    assert_true(tli_may_move(g, abs, second));
    // A write not past those that read the memory, before it and behind it.
    assert_false(tli_may_move(g, first, neg));
    assert_true(tli_may_move(g, first, abs));
    assert_false(tli_may_move(g, first, abs->after));
    assert_true(tli_may_move(g, second, square));
    assert_false(tli_may_move(g, second, NULL));
    // Views read no elements.
    tl_node *row = nth(g, "reshape", 1);
    assert_true(tli_may_move(g, row, neg));
    assert_false(tli_may_move(g, row, abs)); // it is used on the way
    tl_graph_free(&g);
}

// Between a product and its bias an unrelated memory is written: they become one call all the same.
BODY(product_around_a_write)
{
    UNUSED_BODY_ARGS;
    tl_tensor *product = tl_matmul(c, x, tl_swap_axes(c, y, 0, 1));
    tl_update_ema(c, self, tl_full(c, TL_F32, TL_SHAPE(4, 6), 2), 0.5);
    tl_tensors_put(c, out, "z", tl_add(c, product, tl_full(c, TL_F32, TL_SHAPE(4), 1)));
}

BODY(product_of_what_is_written)
{
    UNUSED_BODY_ARGS;
    tl_tensor *product = tl_matmul(c, self, tl_contiguous(c, tl_swap_axes(c, y, 0, 1)));
    tl_update_ema(c, self, tl_full(c, TL_F32, TL_SHAPE(4, 6), 2), 0.5);
    tl_tensors_put(c, out, "z", tl_add(c, product, tl_full(c, TL_F32, TL_SHAPE(4), 1)));
}

static void only_writes_of_what_is_read_count(void **state)
{
    fixture *f = *state;
    tl_tensor *outside = tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1);
    tl_graph *g = captured(f, product_around_a_write, outside);
    assert_int_equal(run_pass(g, "epilogue"), 1);
    tl_graph_free(&g);
    g = captured(f, product_of_what_is_written, outside);
    assert_int_equal(run_pass(g, "epilogue"), 0);
    tl_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(uses_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_of_the_list_are_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(new_calls_are_taken_in, setup, teardown),
        cmocka_unit_test_setup_teardown(faults_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_move_where_nothing_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(only_writes_of_what_is_read_count, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
