#pragma once

namespace lazuli::lazy {

// OpenMP gives every thread that runs parallel work a pool of workers of its own, and keeps it. Once there are more
// workers than cores, all of them sleep between parallel regions instead of spinning, and each region costs tens of
// microseconds. So only one thread keeps a pool: the first one that recorded, usually the user's main thread. Backward
// records on autograd's threads, which must not leave a pool behind.

// Around parallel work: gives the pool back at the end if this thread is not the one that keeps its own.
// In the child of a fork there are no workers (settle_after_fork), and none to give back.
class Workers {
 public:
  Workers();
  ~Workers();

 private:
  bool keep_;
};

}  // namespace lazuli::lazy
