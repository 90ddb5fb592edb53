// Where the tests' folder is, so that tests of text files find them from any working directory.
#pragma once

namespace lazuli {

// The absolute path of tests/, without a slash at its end.
const char* test_root();

}  // namespace lazuli
