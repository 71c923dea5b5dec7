/* A second device, made of the first: it shows what would go wrong on one that is really elsewhere.
 *
 * Its memory is mapped twice. The addresses it hands out may be neither read nor written; its
 * kernels, which are the CPU's, see the same bytes at other addresses. So whoever touches elements
 * without a lease is stopped at once. Its queues run nothing before somebody waits, and then their
 * work in an order drawn from a seed, as far as tickets allow: whoever forgets to wait finds what
 * was there before.
 *
 *     TILTH_DEVICE=fake ctest -R nn_     # the engines of tests are engines of it
 *     TILTH_FAKE_SEED=7                  # another order
 *     TILTH_FAKE_CHOICES=text            # what checkpoints say that it has chosen
 *
 * Thread word: free-threaded. */
#ifndef TILTH_TESTS_FAKE_DEVICE_H
#define TILTH_TESTS_FAKE_DEVICE_H

#include <tilth/desc/registry.h>
#include <tilth/sys/core/backend.h>

extern const tl_device_class fake_device;
/* The CPU's best kernels on it. */
extern const tl_backend_class fake_backend;
/* Both, for a registry. */
extern const tl_module fake_module;

/* The kernels of any backend of the host on it. Lives as long as the process. */
TL_NODISCARD tl_status fake_backend_of(const tl_backend_class **out, const tl_backend_class *inner);
/* As a GPU's would be: its nests run compiled only. */
TL_NODISCARD tl_status fake_backend_without_interpreter(const tl_backend_class **out);
/* Whether the environment asks for it. */
bool fake_wanted(void);

/* The piece of work with this number from now on, over all queues, fails; 0: none. */
void fake_fail_at(int64_t work);
/* Puts work into the queue by the device's own means, as kernels of a real one do: the class's
 * `issue` counts it. */
TL_NODISCARD tl_status fake_launch(tl_queue *q, tl_status (*run)(void *self), void *self);
/* Where such work sees an address of the device. */
void *fake_address(const tl_queue *q, const void *shown);
/* Pieces of work that wait in all queues of all fake devices. */
int64_t fake_pending(void);
/* How often somebody has waited for work that had not run. */
int64_t fake_waits(void);
/* Pieces of work that have run. */
int64_t fake_ran(void);
/* Each piece takes so much longer; 0: as long as it takes. */
void fake_set_delay(int64_t ns);
/* The most bytes from alloc_host at a time, of all fake devices; from now on those that there are,
 * on `reset`. */
int64_t fake_host_peak(bool reset);

#endif
