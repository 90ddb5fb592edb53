#include "lazy/report/device_times.h"

#include "lazy/memory/backing.h"

namespace lazuli::lazy {
namespace {

constexpr int64_t kAtFirst = 8, kOneIn = 64;

}  // namespace

bool DeviceTimes::is_due(int64_t runs, int64_t measured) const {
  return (runs + 1) >> measured > 0 && measured_ < kAtFirst + runs_ / kOneIn;
}

c10::Event DeviceTimes::mark() {
  c10::Event event(backing().device().type(), c10::EventFlag::BACKEND_DEFAULT);  // one that knows when it passed
  event.record(backing().current_stream());
  return event;
}

void DeviceTimes::add(uint64_t executable, uint32_t step, c10::Event begin, c10::Event end) {
  pending_.push_back({{executable, step}, std::move(begin), std::move(end)});
}

void DeviceTimes::look() {
  for (; !pending_.empty() && pending_.front().end.query(); pending_.pop_front()) {
    const Launch& launch = pending_.front();
    Known& known = known_[launch.step];
    // The first launch of a kernel loads its code: it counts only until there is another one.
    if (known.time.count == 1 && !known.has_warmed_up) known = {true, {}};
    ++known.time.count;
    known.time.total += launch.begin.elapsedTime(launch.end) * 1000;
  }
}

DeviceTimes::Time DeviceTimes::of(uint64_t executable, uint32_t step) const {
  const auto known = known_.find({executable, step});
  return known == known_.end() ? Time{} : known->second.time;
}

}  // namespace lazuli::lazy
