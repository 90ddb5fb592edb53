// The only place that materializes: ends the trace, finds or compiles its executable, runs it and fills the cells.
#pragma once
#include <string>
#include <ATen/core/Tensor.h>
#include "lazy/support/metrics.h"
#include "lazy/trace/cell.h"

namespace lazuli::lazy {

class LazyStorage;

// Computes every value that somebody can still read. Throws a torch error that names op and Python line when a step
// fails; then every value of the trace is failed, and later traces are not affected. On a GPU it only hands the trace
// to the Runner, and such an error comes from who next waits for it.
void sync(SyncReason reason);
// The autograd node whose formula this thread computes, by name; "" if there is none. Set by autograd, which lies
// above.
inline std::string (*running_derivative)() = nullptr;

// Computes likewise, and waits until the backing device is done.
void finish();
// For the process's end: the same, if there are calls to make or errors to find of what nobody reads.
void finish_unread();

// The tensor's storage as host memory, computed if need be: with the whole trace, or, if little is needed for it and
// config().peek says so, apart from the trace, which goes on and computes the value once more. `writable`: nobody else
// shares the buffer afterwards.
jit::Buffer materialize(const at::Tensor& t, SyncReason reason, bool writable = false);
jit::Buffer materialize(LazyStorage& storage, SyncReason reason, bool writable = false);
// A value that is not pending gets memory that no other has, if it has not: others' will be written from outside.
void own_memory(const at::Tensor& t);
// As materialize(), for who can be told of no error but the storage's own: others come from the next sync or
// materialize().
jit::Buffer materialize_alone(LazyStorage& storage);
// A CPU tensor over that memory, with the tensor's geometry.
at::Tensor host_view(const at::Tensor& t, SyncReason reason, bool writable = false);
// The same over memory that materialize() gave for the tensor's storage.
at::Tensor host_view(const at::Tensor& t, const jit::Buffer& memory);

// Where to read a materialized tensor from the host: on a GPU, a stream that has nothing else to do first, if the
// tensor's content is there already, or was computed apart.
std::optional<c10::Stream> stream_to_read(const at::Tensor& t);

// The pending trace as textual IR, with the values that somebody can still read as its results.
std::string pending_text();

// Called while recording, under the recorder's lock.
void cut_if_due();   // ends the trace when it repeats itself, or a bound is reached
bool needs_lines();  // false while the trace repeats a known one, whose lines are kept

// Ends the trace after much that was recorded at once, where the device works meanwhile: a loop of such calls keeps it
// busy, and each call is the same trace.
void cut_after_whole();

}  // namespace lazuli::lazy
