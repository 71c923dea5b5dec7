/* Kernels whose blocks wait for each other need all of them on the GPU at a time. The driver can
 * promise that (a cooperative launch), but begins such a kernel only when what stands before it is
 * over, which takes as long as a piece of a small program. Kernels of one queue come one behind the
 * other, and kernels that wait for nobody end by themselves: as long as one queue alone has some
 * that meet, they do without. When a second queue begins to, what runs without the promise ends
 * first, and from then on each is promised, until one queue is left. Queues of all GPUs count. */
#include "cuda/device.h"

static struct {
    pthread_mutex_t lock;
    tli_cuda_queue *first; /* of those whose kernels meet */
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Whoever calls it holds the lock.
static tl_status join(tli_cuda_queue *q)
{
    if (q->meets.joined) return TL_OK;
    for (tli_cuda_queue *other = meeting.first; other; other = other->meets.next) {
        if (tli_cuda_wait(&other->base, other->meets.alone) == TL_OK) continue;
        tl_error_clear(); // its own to tell; it is over
    }
    q->meets.joined = true;
    q->meets.next = meeting.first;
    meeting.first = q;
    return tli_cuda_enter(tli_cuda_of(q->base.device)); // the others may be of another GPU
}

tl_status tli_cuda_may_meet(tl_queue *queue)
{
    pthread_mutex_lock(&meeting.lock);
    const tl_status st = join(tli_cuda_queue_of(queue));
    pthread_mutex_unlock(&meeting.lock);
    return st;
}

void tli_cuda_meets_no_more(tl_queue *queue)
{
    tli_cuda_queue *q = tli_cuda_queue_of(queue), **at = &meeting.first;
    pthread_mutex_lock(&meeting.lock);
    while (*at && *at != q) at = &(*at)->meets.next;
    if (*at) *at = q->meets.next;
    pthread_mutex_unlock(&meeting.lock);
}

tl_status tli_cuda_launch_meeting(tl_queue *queue, CUfunction kernel, int64_t blocks, int threads,
                                  size_t shared, void **parameters, bool proven)
{
    const tli_cuda *d = tli_cuda_of(queue->device);
    tli_cuda_queue *q = tli_cuda_queue_of(queue);
    pthread_mutex_lock(&meeting.lock);
    tl_status st = join(q);
    const bool alone =
        proven && tli_cuda_is_early(d) && !d->served && meeting.first == q && !q->meets.next;
    if (st == TL_OK)
        st = tli_cuda_launch(queue, kernel, blocks, threads, shared, parameters, !alone);
    const uint64_t ticket = tli_cuda_issue(queue);
    if (alone) q->meets.alone = ticket;
    pthread_mutex_unlock(&meeting.lock);
    return st;
}
