#include "jit/devices/cuda/status_words.h"
#include <algorithm>
#include <atomic>
#include "jit/run/executable.h"

namespace lazuli::jit::cuda {

int64_t* StatusWords::take(std::vector<std::string> texts) {
  std::lock_guard lock(mutex_);
  auto free = std::ranges::find_if(words_, [](const Word& w) { return w.texts.empty(); });
  if (free == words_.end()) {
    auto* page = static_cast<int64_t*>(context_.map_host_memory(kWords * sizeof(int64_t)));
    const size_t before = words_.size();
    for (size_t i = 0; i < kWords; ++i) words_.push_back({page + i, {}});
    free = words_.begin() + static_cast<ptrdiff_t>(before);
  }
  *free->at = 0;
  free->texts = std::move(texts);
  return free->at;
}

void StatusWords::release(int64_t* word) {
  std::lock_guard lock(mutex_);
  for (Word& w : words_)
    if (w.at == word) w.texts.clear();
}

void StatusWords::raise() {
  std::lock_guard lock(mutex_);
  std::string text;
  for (Word& w : words_) {
    if (w.texts.empty()) continue;
    const int64_t failed = std::atomic_ref(*w.at).exchange(0);
    if (failed > 0 && static_cast<size_t>(failed) <= w.texts.size() && text.empty())
      text = w.texts[static_cast<size_t>(failed - 1)];
  }
  if (!text.empty()) throw ExecutionError(text);
}

}  // namespace lazuli::jit::cuda
