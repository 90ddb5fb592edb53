// What takes long in making a listing's parts, on all threads. Plans and kernels are those that the parts would get one
// after the other.
#include <algorithm>
#include <chrono>
#include "jit/device.h"
#include "jit/parts/part_cache.h"
#include "jit/side_by_side.h"
#include "lowering/threads/crew.h"

namespace lazuli::jit {
namespace {

// Where this cannot be done, whoever needs a part is told in its turn. For a GPU on all cores: there a kernel takes
// long to make, and the cores have nothing else to do.
template <class T, class F>
void make_on_all_threads(const std::vector<T>& wanted, const CompileOptions& options, F make) {
  const auto try_to_make = [&, threads = lowering::crew_size()](size_t i) {
    const lowering::Threads all(threads);
    try {
      make(wanted[i]);
    } catch (const std::exception&) {}
  };
  const Device& device = options.device ? *options.device : cpu_device();
  if (device.leaves_host_alone()) return side_by_side(wanted.size(), try_to_make);
  lowering::share_out_heavy(static_cast<int64_t>(wanted.size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) try_to_make(static_cast<size_t>(i));
  });
}

}  // namespace

void PartCache::find_or_make_all(std::vector<Sought>& parts, const CompileOptions& options,
                                 const std::function<void(const Sought&, MadePart)>& take) {
  std::vector<Sought*> left;
  for (Sought& sought : parts) left.push_back(&sought);
  while (!left.empty()) {
    compile_new(left, options);
    resize_known(left, options);
    make_new_generic(left, options);
    std::unordered_set<uint64_t> got_plan;  // codes: their other parts may be served by it
    std::vector<Sought*> later;
    for (Sought* sought : left) {
      if (!sought->resized && got_plan.contains(sought->code_hash)) {
        later.push_back(sought);
        continue;
      }
      MadePart part = find_or_make(*sought, options);
      if (part.stats.new_parts && may_get_generic(*sought, options)) got_plan.insert(sought->code_hash);
      take(*sought, std::move(part));
    }
    left = std::move(later);
  }
}

bool PartCache::may_get_generic(const Sought& sought, const CompileOptions& options) const {
  const auto family = find_family(sought);
  return options.dump_folder.empty() && may_resize(options) && family && family->made < kMostGeneric;
}

void PartCache::compile_new(std::span<Sought* const> parts, const CompileOptions& options) const {
  if (!options.dump_folder.empty() || options.other_sizes == OtherSizes::Always) return;
  std::vector<Sought*> wanted;
  std::unordered_set<uint64_t> codes;
  for (Sought* sought : parts) {
    const auto family = find_family(*sought);
    if (is_unplanned(*sought, family.get(), options) ||
        (family && (family->planned || !family->seen.only(sought->numbers()))))
      continue;
    if (codes.insert(sought->code_hash).second) wanted.push_back(sought);
  }
  if (wanted.size() < 2) return;
  // The largest first, so that at the end no thread waits long for another.
  std::stable_sort(wanted.begin(), wanted.end(), [](const Sought* a, const Sought* b) {
    return a->parts.nodes_of(a->part).size() > b->parts.nodes_of(b->part).size();
  });
  make_on_all_threads(wanted, options, [&](Sought* s) { s->compiled = jit::compile(graph_of(*s), options); });
}

void PartCache::resize_known(std::span<Sought* const> parts, const CompileOptions& options) {
  if (!options.dump_folder.empty() || !may_resize(options)) return;
  std::vector<Wanted> wanted;
  std::unordered_set<uint64_t> hashes;
  for (Sought* sought : parts) {
    auto family = find_family(*sought);
    if (!family || family->generic.empty() || is_unplanned(*sought, family.get(), options) || find(*sought)) continue;
    if (hashes.insert(sought->hash).second) wanted.push_back({sought, std::move(family)});
  }
  make_on_all_threads(wanted, options, [&](const Wanted& w) {
    const auto start = std::chrono::steady_clock::now();
    for (const GenericPart& plan : w.family->generic)
      if ((w.sought->resized = plan.executable(w.sought->numbers(), options))) {
        w.sought->plan = &plan;
        break;
      }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    w.sought->resizing_us = took.count();
  });
}

bool PartCache::wants_generic(const Sought& sought, const Family& family, const CompileOptions& options) {
  const bool first = family.seen.empty() || (!family.planned && family.seen.only(sought.numbers()));
  return (!first || options.other_sizes == OtherSizes::Always) && family.made < kMostGeneric;
}

GenericPart& PartCache::make_generic(std::list<GenericPart>& to, const Sought& sought, SeenNumbers& seen,
                                     const CompileOptions& options) {
  seen.see(sought.numbers());
  if (options.other_sizes == OtherSizes::Always) seen.expect_others();
  return to.emplace_front(sought.listing, sought.parts, sought.part, sought.line_text, seen, options);
}

void PartCache::make_new_generic(std::span<Sought* const> parts, const CompileOptions& options) {
  if (!options.dump_folder.empty() || !may_resize(options)) return;
  std::vector<Wanted> wanted;
  std::unordered_set<uint64_t> hashes;
  std::unordered_set<const Family*> families;
  for (Sought* sought : parts) {
    if (!hashes.insert(sought->hash).second) continue;
    auto family = find_family(*sought);
    if (!family || sought->resized || is_unplanned(*sought, family.get(), options) || find(*sought) ||
        !wants_generic(*sought, *family, options))
      continue;
    if (families.insert(family.get()).second) wanted.push_back({sought, std::move(family)});
  }
  if (wanted.size() < 2) return;
  make_on_all_threads(wanted, options, [&](const Wanted& w) {
    SeenNumbers seen = w.family->seen;
    std::list<GenericPart> made;
    w.sought->resized = make_generic(made, *w.sought, seen, options).executable(w.sought->numbers(), options);
    w.sought->generic = std::move(made);
  });
}

}  // namespace lazuli::jit
