/* What authors of backends, devices, ops and compilers use beside tilth.h: all headers of sys/,
 * from the lowest layer up.
 *
 * Thread word: see each header. */
#ifndef TILTH_SYS_SYS_H
#define TILTH_SYS_SYS_H

#include <tilth/sys/core/op.h>
#include <tilth/sys/core/device.h>
#include <tilth/sys/core/backend.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/sys/nest/nest.h>
#include <tilth/sys/nest/plan.h>
#include <tilth/sys/nest/interpret.h>
#include <tilth/sys/nest/print_c.h>
#include <tilth/sys/nest/gpu.h>
#include <tilth/sys/nest/methods.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/cpu/limits.h>
#include <tilth/sys/cpu/jit.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/sys/graph/early.h>
#include <tilth/sys/graph/need.h>
#include <tilth/sys/graph/graph.h>
#include <tilth/sys/graph/program.h>

#endif
