// The kinds of devices that can back `lazuli`, and what sets them apart. Code that does one thing on this device and
// another on that asks what it means, never which device it is; so a kind that is new is a row of the table.
#pragma once
#include <c10/core/Device.h>
#include "jit/run/executable.h"

namespace lazuli::lazy {

// The questions. Some are asked for every op: the answers are plain values.
struct BackingTraits {
  // The host reads and writes its memory as its own.
  bool shares_host_memory;
  // Calls only enqueue their work, in a stream, and the host records on meanwhile. So a buffer may not be there yet, or
  // not be filled, and streams and events mean something.
  bool overlaps_host;
  // Torch's kernels for it are those for the CPU. Their results' types and order in memory, what they round, the words
  // of their errors and their threads are the host's.
  bool has_host_kernels;
  // How many new traces in a row are planned whole before new ones run in parts. Where planning needs no compiler,
  // parts are worth it at once.
  int64_t planned_before_parts;
  // Attention is one of torch's fused kernels there (backend/ops/gpu_attention.cpp). Else a row, or the host's kernel.
  bool has_fused_attention;
  // Products of 16 bits take a fraction of the time that float32's take, and torch's settings say whether float32's
  // may be rounded for that.
  bool has_tensor_cores;
  // Its library of convolutions computes in float64 too.
  bool convolves_float64;
  // Torch's kernels find wrong values by assertions, and one that fails ends all work there.
  bool asserts_in_kernels;
};

struct BackingKind {
  const char* name;  // as LAZULI_BACKING has it
  c10::DeviceType type;
  bool (*is_here)();                             // whether torch finds such a device
  jit::Device& (*code)(c10::DeviceIndex index);  // throws std::exception where something is missing for that
  BackingTraits traits;
};

// By LAZULI_BACKING, or else the first that is here: a GPU before the CPU. Throws a torch error for what is not here.
// Asking may start the GPU's driver.
const BackingKind& choose_backing();

}  // namespace lazuli::lazy
