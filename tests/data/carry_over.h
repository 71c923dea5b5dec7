/* Datasets that go on where others were. */
#ifndef TILTH_TESTS_DATA_CARRY_OVER_H
#define TILTH_TESTS_DATA_CARRY_OVER_H

#include "test.h"

#include <tilth/data/dataset.h>

/* Saves the position of one dataset, and restores it into another, wherever that has gone. */
static inline void carry_over(tl_dataset *from, tl_dataset *to)
{
    tl_state *a, *b, *saved;
    assert_ok(tl_state_new(&a));
    assert_ok(tl_state_new(&b));
    assert_ok(tl_dataset_state(from, a));
    assert_ok(tl_dataset_state(to, b));
    assert_ok(tl_state_clone(&saved, a));
    assert_ok(tl_state_copy(b, saved, NULL, NULL));
    tl_state_free(&a);
    tl_state_free(&b);
    tl_state_free(&saved);
}

#endif
