// Settings: read from the environment at load (LAZULI_<NAME>), changed from Python through torch.lazuli.config.
#pragma once
#include <cstdint>
#include <string>

namespace lazuli::lazy {

struct Config {
  // Whose kernels compute: lazuli (our own) or eager (torch's: reference mode, below). Read when the plugin is loaded.
  std::string kernels = "lazuli";
  bool fusion = true;              // group ops into kernels; off: one kernel an op
  std::string fallback = "quiet";  // an op without a kernel of ours: quiet, warn or error
  // Whose numbers random ops draw: philox (our own kernels) or eager (those of eager's CPU).
  std::string random = "philox";
  // Moves operands that are on the CPU to the device, where others are (backend/record/moved_operands.h).
  bool move_host_operands = false;
  std::string debug;           // "<stages>:<folder>": what to dump of each new trace, and where
  std::string disable_passes;  // comma-separated names
  bool progress = true;        // say on stderr that a compilation takes long (lazy/run/progress.h)
  bool source_lines = true;    // remember the Python line of each op
  // Compute small values that are read apart from the trace (sync.h): gpu, always or never.
  std::string peek = "gpu";
  bool cut_at_step = true;    // end the trace with each optimizer step
  bool cut_at_repeat = true;  // end the trace where it begins to repeat itself (repetition.h)
  bool time_host = false;     // metrics()["host_seconds"]: where the host's time goes (host_time.h)
  // Nodes that hold what was recorded (backend/autograd). Read when the plugin is loaded.
  bool light_autograd = true;
  bool inline_backward = true;  // run their backward on the caller's thread (backend/autograd/engine.h)
  // Record backward again as it was recorded in the same trace before, without taking derivatives
  // (backend/autograd/repeat.h): on, off, or check (take them and compare).
  std::string repeat_backward = "on";
  // How traces are compiled: parts (each distinct part once), plans (each trace whole), or auto: a new one in parts,
  // whole when it has come plan_after times; on a GPU in parts only where some before it were new, too
  // (planned_before_parts of lazy/memory/backing_kinds.h).
  std::string tiers = "auto";
  int64_t plan_after = 4;  // a trace that is mostly turns of a loop: 16 times as often
  // Parts that run op by op with torch's kernels, without a plan (unplanned.h): auto (where they came too
  // seldom), never, or always (for tests); on a GPU never.
  std::string unplanned = "auto";
  // Plans of parts that serve other sizes: auto (made the second time that sizes are others), always (the first time),
  // never (each set of sizes has its own).
  std::string other_sizes = "auto";
  // Parts of a new trace on the CPU that have plans run while it is recorded (run_ahead.h): on, off, or all (its end
  // waits until all that can be has been, for tests).
  std::string run_ahead = "on";
  // Caches that grow by torch.cat have room for more (lazy/record/appending.h): auto, never, or always (also the small
  // ones, from the first time on, for tests).
  std::string append_in_place = "auto";
  // Plans whose launches are captured on a GPU, to be launched again as a few launches (jit/run/captured_runs.h): auto
  // (where launching is what takes time), 0 (none), or always (each that comes again, for tests).
  std::string cuda_graphs = "auto";
  int64_t shadow = 0;                   // compute so many traces a second time, op by op, and compare (shadow.h)
  std::string shadow_action = "raise";  // what follows from a difference: an error, or a warning
  // Where what it takes to see a difference again is written; empty: the system's for such.
  std::string shadow_folder;
  // Known ones, each with its executable, and as many parts; the least recently used are forgotten.
  int64_t max_traces = 1'000;
  int64_t max_pending_ops = 20'000;
  int64_t max_pending_bytes = 0;       // of values recorded and not computed yet; 0: 2 GiB, on a GPU half of its memory
  int64_t max_packed_bytes = 1 << 30;  // of parameters kept in the order in which libraries read them; 0: none are
};

Config& config();
// What is wrong with the environment's settings, which are then not taken; empty: nothing.
std::string environment_error();
std::string config_json();
// Throws std::invalid_argument for an unknown name, a value of the wrong kind, or one that came too late.
void set_config(const std::string& name, const std::string& json_value);

// Reference mode, LAZULI_KERNELS=eager: tensors, memory and the trace are ours, and every kernel is torch's own for the
// backing device, in eager's order, with eager's random numbers, so that results are eager's bit for bit. What kernels
// are registered then is decided in backend/record/registration.cpp; light autograd is off, and random is eager.
inline bool is_reference_mode() { return config().kernels == "eager"; }

}  // namespace lazuli::lazy
