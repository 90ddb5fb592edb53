// Which windows of a storage traces read. A script that takes its batches from one large tensor reads another window in
// each step: were the place part of the trace, each step would be a new trace. Such windows are inputs of their own.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace lazuli::lazy {

class Windows {
 public:
  struct Window {
    int64_t offset, extent;  // in elements: where it begins, and from its first element to its last
    friend bool operator==(const Window&, const Window&) = default;
  };

  // Notes that the trace `epoch` reads this window. Returns whether windows of the storage move: whether a trace has
  // read one elsewhere than the trace before it did, with as many different ones before.
  bool note(uint64_t epoch, Window w) {
    if (moving_) return true;
    if (epoch != epoch_) {
      std::swap(before_, now_);
      now_.clear();
      epoch_ = epoch;
    }
    if (std::ranges::find(now_, w) != now_.end() || now_.size() == kMost) return false;
    if (now_.size() < before_.size()) {
      const Window& there = before_[now_.size()];
      moving_ = there.extent == w.extent && there.offset != w.offset;
    }
    now_.push_back(w);
    return moving_;
  }

 private:
  static constexpr size_t kMost = 64;  // remembered of a trace

  uint64_t epoch_ = 0;
  std::vector<Window> before_, now_;  // different ones, as they were first read
  bool moving_ = false;
};

}  // namespace lazuli::lazy
