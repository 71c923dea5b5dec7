/* needs: threads; runs: fake device */
#include "core/lab.h"

#include <pthread.h>
#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/sys/core/device.h>
#include <tilth/train/writers/storage.h>

typedef struct fixture {
    tl_engine *engine;
    tl_event_storage *s;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f.engine = open_engine();
    assert_ok(tl_event_storage_new(&f.s, NULL));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_event_storage_free(&f->s);
    tl_event_storage_free(&f->s);
    close_engine(&f->engine);
    return 0;
}

/* --- history ---------------------------------------------------------------------------------- */

static void history_has_the_values_of_the_specification(void **state)
{
    (void)state;
    tl_history h;
    tl_history_init(&h, 0);
    assert_true(isnan(tl_history_latest(&h)) && isnan(tl_history_median(&h, 3)));
    assert_true(isnan(tl_history_average(&h, 3)) && isnan(tl_history_global_average(&h)));
    for (int i = 1; i <= 4; i++) assert_ok(tl_history_put(&h, i, 10 * i));
    assert_near(tl_history_median(&h, 2), 3.5, 0);
    assert_near(tl_history_median(&h, 3), 3, 0);
    assert_near(tl_history_median(&h, 100), 2.5, 0);
    assert_near(tl_history_average(&h, 2), 3.5, 0);
    assert_near(tl_history_global_average(&h), 2.5, 0);
    assert_near(tl_history_latest(&h), 4, 0);
    assert_int_equal(tl_history_iteration(&h, 2), 30);
    assert_true(isnan(tl_history_median(&h, 0)) && isnan(tl_history_average(&h, -1)));
    tl_history_deinit(&h);

    tl_history_init(&h, 3); // the average goes on over what was dropped
    for (int i = 1; i <= 8; i++) assert_ok(tl_history_put(&h, i, i));
    assert_int_equal(tl_history_count(&h), 3);
    for (int i = 0; i < 3; i++) {
        assert_near(tl_history_value(&h, i), 6 + i, 0);
        assert_int_equal(tl_history_iteration(&h, i), 6 + i);
    }
    assert_near(tl_history_global_average(&h), 4.5, 1e-15);
    assert_near(tl_history_median(&h, 10), 7, 0);
    tl_history_deinit(&h);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void medians_are_those_of_sorted_values(void **state)
{
    (void)state;
    tl_history h;
    double values[600], sorted[600];
    unsigned seed = 3;
    tl_history_init(&h, 500);
    for (int i = 0; i < 600; i++) {
        seed = seed * 1103515245u + 12345u;
        double x = ldexp((double)(seed >> 8) / (1 << 23) - 1, (int)(seed % 41) - 20);
        values[i] = seed % 7 == 0 ? 0.25 : seed % 31 == 0 ? -0.0 : seed % 101 == 0 ? INFINITY : x;
        assert_ok(tl_history_put(&h, values[i], i));
        for (int64_t window = 1; window <= 520; window += 37) {
            int64_t n = i + 1 < 500 ? i + 1 : 500;
            if (window < n) n = window;
            memcpy(sorted, values + i + 1 - n, (size_t)n * sizeof *sorted);
            qsort(sorted, (size_t)n, sizeof *sorted, by_value);
            double want = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
            double found = tl_history_median(&h, window);
            if (!(found == want)) fail_msg("median of %lld: %g, not %g", (long long)n, found, want);
        }
    }
    tl_history long_one; // a window that is selected another way
    double *many = malloc(3001 * sizeof *many);
    tl_history_init(&long_one, 0);
    for (int i = 0; i < 3001; i++) {
        seed = seed * 1103515245u + 12345u;
        many[i] = (double)(seed >> 16 & 1023) - 512;
        assert_ok(tl_history_put(&long_one, many[i], i));
    }
    double even = tl_history_median(&long_one, 3000), odd = tl_history_median(&long_one, 3001);
    qsort(many, 3001, sizeof *many, by_value);
    assert_near(odd, many[1500], 0);
    assert_ok(tl_history_put(&long_one, NAN, 3001));
    assert_true(isnan(tl_history_median(&long_one, 2000)));
    tl_history_deinit(&long_one);
    assert_near(even, many[1500], 1); // one less of so many
    free(many);
    assert_ok(tl_history_put(&h, NAN, 600));
    assert_true(isnan(tl_history_median(&h, 5)));
    for (int i = 0; i < 5; i++) assert_ok(tl_history_put(&h, i, 601 + i));
    assert_near(tl_history_median(&h, 5), 2, 0); // it has left the window
    tl_history_deinit(&h);
}

/* --- storage ---------------------------------------------------------------------------------- */

static void scalars_have_a_last_value_and_a_smoothed_one(void **state)
{
    fixture *f = *state;
    tl_event_latest latest;
    for (int i = 0; i < 30; i++) {
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put(f->s, "total_loss", i));
        assert_ok(tl_event_storage_put_plain(f->s, "lr", i * 0.5));
        if (i % 10 == 0) assert_ok(tl_event_storage_put_plain(f->s, "accuracy", i));
    }
    assert_int_equal(tl_event_storage_iteration(f->s), 29);
    assert_int_equal(tl_event_storage_count(f->s), 3);
    assert_ok(tl_event_storage_at(&latest, f->s, 0));
    assert_string_equal(latest.name, "total_loss");
    assert_near(latest.value, 29, 0);
    assert_true(latest.smooth);
    assert_ok(tl_event_storage_smoothed_at(&latest, f->s, 0, 20));
    assert_near(latest.value, 19.5, 0);
    assert_int_equal(latest.iteration, 29);
    assert_ok(tl_event_storage_smoothed_at(&latest, f->s, 1, 20));
    assert_string_equal(latest.name, "lr");
    assert_near(latest.value, 14.5, 0);
    assert_false(latest.smooth);
    assert_ok(tl_event_storage_latest(&latest, f->s, "accuracy"));
    assert_near(latest.value, 20, 0);
    assert_int_equal(latest.iteration, 20);
    assert_fails(tl_event_storage_latest(&latest, f->s, "acuracy"), TL_ENOTFOUND,
                 "no scalar 'acuracy'; it has total_loss, lr, accuracy");
    assert_fails(tl_event_storage_put(f->s, "lr", 1), TL_EINVAL,
                 "the scalar 'lr' was put plain before and is now put smoothed");
    assert_fails(tl_event_storage_put_plain(f->s, "total_loss", 1), TL_EINVAL,
                 "put smoothed before");
    assert_fails(tl_event_storage_put(f->s, "", 1), TL_EINVAL, "must have a name");
    const tl_history *h;
    assert_ok(tl_event_storage_history(&h, f->s, "total_loss"));
    assert_int_equal(tl_history_count(h), 30);
    assert_ok(tl_event_storage_history(&h, f->s, "nothing"));
    assert_null(h);
    assert_int_equal(tl_event_storage_samples(f->s), 0); // asked before anybody said
    tl_event_storage_set_samples(f->s, 640);
    assert_int_equal(tl_event_storage_samples(f->s), 640);
}

static void the_start_and_the_length_can_be_given(void **state)
{
    (void)state;
    tl_event_storage *s;
    const tl_history *h;
    assert_ok(tl_event_storage_new(&s, &(tl_event_storage_args){.iteration = 500, .history = 2}));
    assert_int_equal(tl_event_storage_iteration(s), 500);
    for (int i = 0; i < 5; i++) assert_ok(tl_event_storage_put(s, "x", i));
    assert_ok(tl_event_storage_history(&h, s, "x"));
    assert_int_equal(tl_history_count(h), 2);
    assert_near(tl_history_global_average(h), 2, 0);
    assert_int_equal(tl_history_iteration(h, 0), 500);
    tl_event_storage_free(&s);
}

static void handles_spare_the_name(void **state)
{
    fixture *f = *state;
    tl_event_scalar *a, *same;
    tl_event_latest latest;
    assert_ok(tl_event_storage_scalar(&a, f->s, "time", true));
    assert_ok(tl_event_storage_at(&latest, f->s, 0));
    assert_int_equal(latest.iteration, -1); // nothing yet
    assert_fails(tl_event_storage_latest(&latest, f->s, "time"), TL_ENOTFOUND, "'time'");
    for (int i = 0; i < 100; i++)
        assert_ok(tl_event_storage_put_plain(f->s, (char[]){(char)(33 + i), 0}, 1));
    assert_ok(tl_event_scalar_put(a, 0.25)); // the map has grown meanwhile
    assert_ok(tl_event_storage_put(f->s, "time", 0.75));
    assert_ok(tl_event_storage_scalar(&same, f->s, "time", true));
    assert_ptr_equal(a, same);
    assert_fails(tl_event_storage_scalar(&same, f->s, "time", false), TL_EINVAL, "decide for one");
    assert_ok(tl_event_storage_smoothed_at(&latest, f->s, 0, 20));
    assert_near(latest.value, 0.5, 0);
}

static void scopes_are_joined(void **state)
{
    fixture *f = *state;
    size_t outer, inner;
    tl_event_latest latest;
    assert_ok(tl_event_storage_scope_begin(&outer, f->s, "encoder/"));
    assert_ok(tl_event_storage_put(f->s, "loss", 1));
    assert_ok(tl_event_storage_scope_begin(&inner, f->s, "layer_0"));
    assert_ok(tl_event_storage_put(f->s, "loss", 2));
    assert_ok(tl_event_storage_put_text(f->s, "note", "x"));
    tl_event_storage_scope_end(f->s, inner);
    assert_ok(tl_event_storage_put(f->s, "loss", 3));
    assert_ok(tl_event_storage_scope_begin(&inner, f->s, "left open by a failure"));
    tl_event_storage_scope_end(f->s, outer);
    assert_ok(tl_event_storage_put(f->s, "loss", 4));
    assert_ok(tl_event_storage_latest(&latest, f->s, "encoder/loss"));
    assert_near(latest.value, 3, 0);
    assert_ok(tl_event_storage_latest(&latest, f->s, "encoder/layer_0/loss"));
    assert_near(latest.value, 2, 0);
    assert_ok(tl_event_storage_latest(&latest, f->s, "loss"));
    assert_near(latest.value, 4, 0);
    tl_logs_entry e;
    int64_t iteration;
    tl_event_storage_media_at(&e, &iteration, f->s, 0);
    assert_string_equal(e.name, "encoder/layer_0/note");
    assert_fails(tl_event_storage_scope_begin(&outer, f->s, "//"), TL_EINVAL, "must have a name");
}

static void tensors_are_read_when_asked_for(void **state)
{
    fixture *f = *state;
    tl_event_latest latest;
    const tl_history *h;
    tl_tensor *t[3];
    // A tensor for each step: all values are there when somebody asks, and none is waited for
    // before.
    for (int i = 0; i < 3; i++) {
        t[i] = tensor_of(f->engine, TL_BF16, TL_SHAPE(1), (const double[]){i + 0.5});
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put_tensor(f->s, "loss", t[i], true));
        tl_tensor_free(&t[i]);
    }
    assert_ok(tl_event_storage_latest(&latest, f->s, "loss"));
    assert_near(latest.value, 2.5, 0);
    assert_int_equal(latest.iteration, 2);
    assert_ok(tl_event_storage_history(&h, f->s, "loss"));
    assert_int_equal(tl_history_count(h), 3);
    for (int i = 0; i < 3; i++) {
        assert_near(tl_history_value(h, i), i + 0.5, 0);
        assert_int_equal(tl_history_iteration(h, i), i);
    }
    // One that every step writes over has the last value only, unless it was there at once.
    bool at_once = tl_engine_device(f->engine)->cls->host;
    t[0] = tensor_of(f->engine, TL_F32, TL_SCALAR, (const double[]){7});
    for (int i = 3; i < 6; i++) {
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put_tensor(f->s, "loss", t[0], true));
    }
    assert_ok(tl_event_storage_put(f->s, "loss", 8)); // numbers and tensors stay in order
    assert_ok(tl_event_storage_history(&h, f->s, "loss"));
    assert_int_equal(tl_history_count(h), at_once ? 7 : 5);
    assert_near(tl_history_value(h, 3), 7, 0);
    assert_int_equal(tl_history_iteration(h, 3), at_once ? 3 : 5);
    assert_near(tl_history_latest(h), 8, 0);
    tl_tensor_free(&t[0]);
    t[0] = tensor_of(f->engine, TL_F32, TL_SHAPE(2), NULL);
    assert_fails(tl_event_storage_put_tensor(f->s, "loss", t[0], true), TL_EINVAL,
                 "loss: float32[2] is no number");
    tl_tensor_free(&t[0]);
}

static void not_more_than_so_many_wait_unread(void **state)
{
    fixture *f = *state;
    const tl_history *h;
    int64_t before = memory_used(f->engine), most = 0;
    for (int i = 0; i < 300; i++) {
        tl_tensor *t = tensor_of(f->engine, TL_F32, TL_SCALAR, (const double[]){i});
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put_tensor(f->s, "x", t, false));
        int64_t used = memory_used(f->engine) - before;
        if (i == TL_EVENT_UNREAD - 1) most = used;
        if (i >= TL_EVENT_UNREAD) assert_true(used <= most + most / TL_EVENT_UNREAD);
        tl_tensor_free(&t);
    }
    assert_ok(tl_event_storage_history(&h, f->s, "x"));
    assert_int_equal(tl_history_count(h), 300);
    for (int i = 0; i < 300; i++) assert_near(tl_history_value(h, i), i, 0);
    assert_int_equal(memory_used(f->engine), before);
}

static void media_keep_what_was_put_last(void **state)
{
    fixture *f = *state;
    tl_logs_entry e;
    int64_t iteration;
    tl_tensor *image = tensor_of(f->engine, TL_U8, TL_SHAPE(2, 2, 1), NULL);
    tl_tensor *weights = tensor_of(f->engine, TL_F32, TL_SHAPE(4), NULL);
    for (int i = 0; i < 5; i++) {
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put_image(f->s, "input", image));
        if (i < 3) assert_ok(tl_event_storage_put_histogram(f->s, "weights", weights, 0));
        if (i == 1) assert_ok(tl_event_storage_put_text(f->s, "note", "one"));
    }
    assert_fails(tl_event_storage_put_image(f->s, "input", weights), TL_EINVAL,
                 "input: float32[4] is no image");
    assert_fails(tl_event_storage_put_image(f->s, "new", weights), TL_EINVAL,
                 "new: float32[4] is no image");
    assert_int_equal(tl_event_storage_media_count(f->s), 3);
    static const struct {
        const char *name;
        tl_logs_kind kind;
        int64_t iteration;
    } want[] = {
        {"input", TL_LOGS_IMAGE, 4}, {"weights", TL_LOGS_HISTOGRAM, 2}, {"note", TL_LOGS_TEXT, 1}};
    for (int i = 0; i < 3; i++) {
        tl_event_storage_media_at(&e, &iteration, f->s, i);
        assert_string_equal(e.name, want[i].name);
        assert_int_equal(e.kind, want[i].kind);
        assert_int_equal(iteration, want[i].iteration);
    }
    tl_tensor_free(&image);
    tl_tensor_free(&weights);
    tl_event_storage_clear_media(f->s);
    assert_int_equal(tl_event_storage_media_count(f->s), 0);
    assert_int_equal(memory_used(f->engine), 0);
    assert_ok(tl_event_storage_put_text(f->s, "again", "x"));
    tl_event_storage_media_at(&e, &iteration, f->s, 0);
    assert_string_equal(e.name, "again");
}

static void logs_go_in_by_their_paths(void **state)
{
    fixture *f = *state;
    tl_logs *l, *sub;
    tl_event_latest latest;
    tl_tensor *one = tensor_of(f->engine, TL_F32, TL_SCALAR, (const double[]){3});
    tl_tensor *many = tensor_of(f->engine, TL_F32, TL_SHAPE(9), NULL);
    assert_ok(tl_logs_new(&l));
    assert_ok(tl_logs_put(l, "loss", 1));
    assert_ok(tl_logs_sub(&sub, l, "val"));
    assert_ok(tl_logs_put(sub, "Acc@1", 0.75));
    assert_ok(tl_logs_put_tensor(sub, "t", one));
    assert_ok(tl_logs_put_any(sub, "predictions", many));
    assert_ok(tl_logs_put_text(sub, "note", "n"));
    assert_ok(tl_event_storage_put_logs(f->s, l, false));
    assert_int_equal(tl_event_storage_count(f->s), 3);
    assert_ok(tl_event_storage_latest(&latest, f->s, "val/Acc@1"));
    assert_near(latest.value, 0.75, 0);
    assert_false(latest.smooth);
    assert_ok(tl_event_storage_latest(&latest, f->s, "val/t"));
    assert_near(latest.value, 3, 0);
    assert_int_equal(tl_event_storage_media_count(f->s), 1);
    tl_logs_free(&l);
    tl_tensor_free(&one);
    tl_tensor_free(&many);
}

static void going_back_forgets_the_future(void **state)
{
    fixture *f = *state;
    tl_event_storage *s;
    tl_event_latest latest;
    const tl_history *h;
    tl_logs_entry e;
    int64_t iteration;
    assert_ok(tl_event_storage_new(&s, &(tl_event_storage_args){.history = 4}));
    for (int i = 0; i < 6; i++) {
        tl_event_storage_set_iteration(s, i);
        assert_ok(tl_event_storage_put(s, "loss", i == 5 ? NAN : i));
        assert_ok(tl_event_storage_put_plain(s, "x", 2 * i));
        tl_tensor *t = tensor_of(f->engine, TL_F32, TL_SCALAR, (const double[]){i});
        assert_ok(tl_event_storage_put_tensor(s, "t", t, false));
        tl_tensor_free(&t);
        if (i == 2) assert_ok(tl_event_storage_put_text(s, "early", "a"));
        if (i == 5) assert_ok(tl_event_storage_put_plain(s, "accuracy", 1));
        if (i == 5) assert_ok(tl_event_storage_put_text(s, "late", "b"));
    }
    tl_event_storage_rewind(s, 3);
    assert_ok(tl_event_storage_latest(&latest, s, "x"));
    assert_near(latest.value, 6, 0);
    assert_int_equal(latest.iteration, 3);
    assert_ok(tl_event_storage_latest(&latest, s, "t"));
    assert_near(latest.value, 3, 0);
    assert_fails(tl_event_storage_latest(&latest, s, "accuracy"), TL_ENOTFOUND, "accuracy");
    tl_event_storage_media_at(&e, &iteration, s, 0);
    assert_int_equal(iteration, 2);
    tl_event_storage_media_at(&e, &iteration, s, 1);
    assert_int_equal(iteration, -1);
    // The ring, which had turned, goes on where it was cut.
    assert_ok(tl_event_storage_history(&h, s, "x"));
    assert_near(tl_history_global_average(h), 3, 1e-12);
    for (int i = 4; i < 7; i++) {
        tl_event_storage_set_iteration(s, i);
        assert_ok(tl_event_storage_put_plain(s, "x", 100 + i));
    }
    assert_ok(tl_event_storage_history(&h, s, "x"));
    const double want[] = {6, 104, 105, 106};
    assert_int_equal(tl_history_count(h), 4);
    for (int i = 0; i < 4; i++) assert_near(tl_history_value(h, i), want[i], 0);
    // The value that was not finite is gone from the average too: 2 and 3 are kept.
    assert_ok(tl_event_storage_history(&h, s, "loss"));
    assert_near(tl_history_global_average(h), 2.5, 0);
    tl_event_storage_rewind(s, -1);
    assert_ok(tl_event_storage_history(&h, s, "x"));
    assert_null(h);
    assert_ok(tl_event_storage_put_plain(s, "x", 1));
    assert_ok(tl_event_storage_history(&h, s, "x"));
    assert_int_equal(tl_history_count(h), 1);
    tl_event_storage_free(&s);
}

static void samples_go_back_a_few_steps(void **state)
{
    (void)state;
    tl_event_storage *s;
    assert_ok(tl_event_storage_new(&s, NULL));
    for (int64_t i = 0; i < 3; i++) {
        tl_event_storage_set_iteration(s, i);
        tl_event_storage_set_samples(s, 1); // the last word counts
        tl_event_storage_set_samples(s, (i + 1) * 64);
    }
    tl_event_storage_rewind(s, 2);
    assert_int_equal(tl_event_storage_samples(s), 3 * 64);
    tl_event_storage_rewind(s, 1);
    assert_int_equal(tl_event_storage_samples(s), 2 * 64);
    tl_event_storage_rewind(s, -1); // to the beginning
    assert_int_equal(tl_event_storage_samples(s), 0);
    for (int64_t i = 0; i < 50; i++) {
        tl_event_storage_set_iteration(s, i);
        tl_event_storage_set_samples(s, (i + 1) * 64);
    }
    tl_event_storage_rewind(s, 45);
    assert_int_equal(tl_event_storage_samples(s), 46 * 64);
    tl_event_storage_rewind(s, 10); // that is forgotten: until the next step it stays
    assert_int_equal(tl_event_storage_samples(s), 46 * 64);
    tl_event_storage_set_iteration(s, 11);
    tl_event_storage_set_samples(s, 12 * 64);
    tl_event_storage_rewind(s, 11);
    assert_int_equal(tl_event_storage_samples(s), 12 * 64);
    tl_event_storage_free(&s);
}

static void *look(void *payload)
{
    tl_event_storage *own;
    if (tl_event_storage_current()) return payload;
    if (tl_event_storage_new(&own, NULL) != TL_OK) return payload;
    tl_event_storage_push(own);
    bool right = tl_event_storage_current() == own;
    tl_event_storage_pop(own);
    tl_event_storage_free(&own);
    return right && !tl_event_storage_current() ? NULL : payload;
}

static void each_thread_has_a_stack(void **state)
{
    fixture *f = *state;
    tl_event_storage *inner;
    pthread_t thread;
    void *wrong;
    assert_null(tl_event_storage_current());
    tl_event_storage_push(f->s);
    assert_ptr_equal(tl_event_storage_current(), f->s);
    assert_ok(tl_event_storage_new(&inner, NULL));
    tl_event_storage_push(inner);
    assert_ptr_equal(tl_event_storage_current(), inner);
    assert_int_equal(pthread_create(&thread, NULL, look, f), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    tl_event_storage_pop(inner);
    assert_ptr_equal(tl_event_storage_current(), f->s);
    tl_event_storage_pop(f->s);
    assert_null(tl_event_storage_current());
    tl_event_storage_push(inner); // it can come again
    tl_event_storage_pop(inner);
    tl_event_storage_free(&inner);
}

static tl_status everything(fixture *f, tl_tensor *t, const tl_logs *l)
{
    tl_event_storage *s = NULL;
    tl_event_scalar *handle;
    size_t mark;
    tl_event_latest latest;
    tl_status st;
    (void)f;
    TL_TRY_DONE(st, tl_event_storage_new(&s, NULL));
    for (int i = 0; i < 70; i++) TL_TRY_DONE(st, tl_event_storage_put(s, "x", i));
    TL_TRY_DONE(st, tl_event_storage_scope_begin(&mark, s, "scope"));
    TL_TRY_DONE(st, tl_event_storage_put_plain(s, "y", 1));
    TL_TRY_DONE(st, tl_event_storage_put_tensor(s, "t", t, false));
    TL_TRY_DONE(st, tl_event_storage_put_image(s, "i", t));
    TL_TRY_DONE(st, tl_event_storage_put_histogram(s, "h", t, 3));
    TL_TRY_DONE(st, tl_event_storage_put_text(s, "text", "text"));
    TL_TRY_DONE(st, tl_event_storage_put_logs(s, l, true));
    TL_TRY_DONE(st, tl_event_storage_scalar(&handle, s, "z", true));
    TL_TRY_DONE(st, tl_event_scalar_put(handle, 1));
    TL_TRY_DONE(st, tl_event_storage_latest(&latest, s, "scope/t"));
    st = latest.value == 5 ? TL_OK : TL_FAIL(TL_EINTERNAL, "lost");
done:
    tl_event_storage_free(&s);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    fixture *f = *state;
    int64_t failures = 0;
    tl_tensor *t = tensor_of(f->engine, TL_U8, TL_SHAPE(1, 1, 1), (const double[]){5});
    tl_logs *l;
    assert_ok(tl_logs_new(&l));
    assert_ok(tl_logs_put(l, "n", 1));
    assert_ok(tl_logs_put_text(l, "text", "t"));
    for (int64_t nth = 1;; nth++) {
        int64_t calls = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = everything(f, t, l);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) {
            assert_int_equal(st, TL_ENOMEM);
            failures++;
        }
        if (tl_alloc_calls() - calls < nth) break;
    }
    assert_true(failures > 20);
    tl_tensor_free(&t);
    tl_logs_free(&l);
}

// Hooks put several scalars in each step, which may take some microseconds only.
static void putting_is_quick(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 20000, NAMES = 8 };
    static const char *const names[NAMES] = {
        "time",      "data_time",         "total_loss",     "lr",
        "grad_norm", "tokens_per_second", "masked_lm_loss", "next_sentence_loss"};
    double best = INFINITY;
    for (int trial = 0; trial < 5; trial++) {
        int64_t start = tl_clock_ns();
        for (int i = 0; i < ROUNDS; i++)
            for (int k = 0; k < NAMES; k++)
                if (tl_event_storage_put(f->s, names[k], i) != TL_OK) fail();
        double ns = (double)(tl_clock_ns() - start) / (ROUNDS * NAMES);
        if (ns < best) best = ns;
    }
    print_message("%.1f ns a scalar\n", best);
    // a bound for any machine, load and sanitizer; some 40 where nothing slows it
    assert_true(best < 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_has_the_values_of_the_specification),
        cmocka_unit_test(medians_are_those_of_sorted_values),
        LAB_TEST(scalars_have_a_last_value_and_a_smoothed_one),
        LAB_TEST(the_start_and_the_length_can_be_given),
        LAB_TEST(handles_spare_the_name),
        LAB_TEST(scopes_are_joined),
        LAB_TEST(tensors_are_read_when_asked_for),
        LAB_TEST(not_more_than_so_many_wait_unread),
        LAB_TEST(media_keep_what_was_put_last),
        LAB_TEST(logs_go_in_by_their_paths),
        LAB_TEST(going_back_forgets_the_future),
        cmocka_unit_test(samples_go_back_a_few_steps),
        LAB_TEST(each_thread_has_a_stack),
        LAB_TEST(every_allocation_may_fail),
        LAB_TEST(putting_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
