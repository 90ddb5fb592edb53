// How a trace becomes an executable: whole, or in parts.
#pragma once
#include "lazy/run/trace_cache.h"
#include "lazy/support/metrics.h"

namespace lazuli::jit {
class PartsAhead;
}

namespace lazuli::lazy {

jit::CompileOptions compile_options(const Settings& settings, uint64_t key);

// Whether traces on this device, under these settings, may be cut into parts. Not where torch was asked for
// deterministic algorithms: how often a trace has come would show in what it rounds.
bool may_run_in_parts();
// Whether such parts may run op by op, with torch's kernels.
bool may_run_unplanned();

// Whether nobody but the trace can read the value any more. `buffers`: how many hold its buffer if so.
bool is_dead(const Cell& c, long buffers);

// Whether a trace ends because somebody wants to read.
bool is_read(SyncReason reason);

// Whether the trace, if it ended now, would run by a plan of its own, and not in parts.
bool runs_whole(uint64_t key, const Settings& settings, const Trace& trace, const std::vector<ValueId>& live);

// Compiles a trace that is not known. One that runs in parts is remembered when it has come often enough to be planned
// whole. `ahead`: what has been made of it already, if anything.
KnownRef compile(uint64_t key, const Settings& settings, const Trace& trace, std::vector<ValueId> live,
                 SyncReason reason, jit::PartsAhead* ahead);

}  // namespace lazuli::lazy
