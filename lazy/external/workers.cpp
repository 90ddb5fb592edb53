#include "lazy/external/workers.h"

#include <thread>
#include <omp.h>
#include "lazy/record/recording.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {

Workers::Workers() {
  keep_ = is_forked() || std::this_thread::get_id() == recorder().first_thread || omp_in_parallel();
}
Workers::~Workers() {
  if (!keep_) omp_pause_resource(omp_pause_soft, omp_get_initial_device());
}

}  // namespace lazuli::lazy
