// What is loaded is what was stored, by this user, for exactly this key; whatever else lies there is as if it did not.
#include "jit/kernels/disk_cache.h"
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lazuli::jit {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest() {
    char name[] = "/tmp/lazuli_disk_cache_XXXXXX";
    root_ = mkdtemp(name);
  }
  ~DiskCacheTest() override { fs::remove_all(root_); }

  std::string folder() const { return root_ + "/cache/cpu"; }
  fs::path file(const std::string& key) const { return fs::path(folder()) / DiskCache::file_name(key); }
  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  std::string root_;
};

const std::string kKey("a key\0with a zero", 17), kBytes(
                                                      "\x7f"
                                                      "ELF\0code",
                                                      9);

TEST_F(DiskCacheTest, KeepsWhatItIsGiven) {
  const DiskCache cache(folder());
  EXPECT_FALSE(cache.load(kKey));
  cache.store(kKey, kBytes);
  EXPECT_EQ(cache.load(kKey), kBytes);
  EXPECT_EQ(DiskCache(folder()).load(kKey), kBytes) << "another process's";
  EXPECT_FALSE(cache.load("a key")) << "the beginning of a key";
  cache.store(kKey, "");
  EXPECT_EQ(cache.load(kKey), "");
}

TEST_F(DiskCacheTest, IsTheUsersOwn) {
  DiskCache(folder()).store(kKey, kBytes);
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(file(kKey)).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(DiskCacheTest, NoChangedFileIsLoadedAndEachIsReplaced) {
  const DiskCache cache(folder());
  std::string code(500, '\0');
  std::mt19937 random(0);
  for (char& c : code) c = static_cast<char>(random());
  cache.store(kKey, code);
  const std::string good = read(file(kKey));
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    const size_t at = random() % bad.size();
    switch (i % 4) {
      case 0:
        bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
        break;
      case 1:
        bad.resize(at);
        break;
      case 2:
        bad.insert(at, 1 + random() % 20, static_cast<char>(random()));
        break;
      case 3:
        for (size_t k = at; k < bad.size(); ++k) bad[k] = static_cast<char>(random());
        break;
    }
    if (bad == good) continue;
    write(file(kKey), bad);
    EXPECT_FALSE(cache.load(kKey)) << i;
    cache.store(kKey, code);
    EXPECT_EQ(cache.load(kKey), code) << i;
  }
}

TEST_F(DiskCacheTest, AnotherKeysFileIsNotLoaded) {
  const DiskCache cache(folder());
  cache.store(kKey, kBytes);
  cache.store("other", "other code");
  fs::copy_file(file("other"), file(kKey), fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.load(kKey));
}

TEST_F(DiskCacheTest, WhatOthersMayHaveWrittenIsNotLoaded) {
  const DiskCache cache(folder());
  cache.store(kKey, kBytes);
  fs::permissions(file(kKey), fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(cache.load(kKey));
  fs::permissions(file(kKey), fs::perms::group_write, fs::perm_options::remove);
  EXPECT_TRUE(cache.load(kKey));
  fs::permissions(folder(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache.load(kKey));
  cache.store("another", kBytes);
  EXPECT_FALSE(fs::exists(file("another"))) << "nothing is written there either";
  fs::permissions(folder(), fs::perms::others_write, fs::perm_options::remove);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(file(kKey).c_str(), 12345, 12345), 0);
    EXPECT_FALSE(cache.load(kKey));
    cache.store(kKey, kBytes);
    EXPECT_TRUE(cache.load(kKey));
    ASSERT_EQ(chown(folder().c_str(), 12345, 12345), 0);
    EXPECT_FALSE(cache.load(kKey));
  }
}

TEST_F(DiskCacheTest, LinksAndSpecialFilesAreNotRead) {
  const DiskCache cache(folder());
  cache.store(kKey, kBytes);
  const fs::path elsewhere = root_ + "/elsewhere";
  fs::rename(file(kKey), elsewhere);
  fs::create_symlink(elsewhere, file(kKey));
  EXPECT_FALSE(cache.load(kKey));
  fs::remove(file(kKey));
  ASSERT_EQ(mkfifo(file(kKey).c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_FALSE(cache.load(kKey)) << "nor waited for";
  cache.store(kKey, kBytes);
  EXPECT_TRUE(cache.load(kKey));
  fs::rename(folder(), root_ + "/moved");
  fs::create_directory_symlink(root_ + "/moved", folder());
  EXPECT_FALSE(cache.load(kKey));
}

TEST_F(DiskCacheTest, WhatIsUsedLeastRecentlyGoesFirst) {
  const std::string code(1000, 'x');
  fs::create_directories(folder());
  fs::permissions(folder(), fs::perms::owner_all);
  for (const char* name : {"somebody's", "0123456789abcdef0123456789abcdefg"}) {
    write(fs::path(folder()) / name, std::string(5000, 'y'));
    fs::last_write_time(fs::path(folder()) / name, fs::file_time_type::clock::now() - std::chrono::hours(2000));
  }
  for (int i = 0; i < 40; ++i) {
    DiskCache(folder(), 20'000, 1).store(std::to_string(i), code);
    fs::last_write_time(file(std::to_string(i)), fs::file_time_type::clock::now() - std::chrono::hours(1000 - i));
    if (i % 2 == 0) {
      EXPECT_TRUE(DiskCache(folder()).load("0")) << "and by that is used";
    }
  }
  int64_t bytes = 0;
  for (const char* name : {"somebody's", "0123456789abcdef0123456789abcdefg"})
    EXPECT_TRUE(fs::remove(fs::path(folder()) / name)) << "which is none of the cache's";
  for (const auto& f : fs::directory_iterator(folder())) bytes += static_cast<int64_t>(f.file_size());
  EXPECT_LE(bytes, 20'000);
  EXPECT_GE(bytes, 10'000);
  EXPECT_TRUE(DiskCache(folder()).load("0"));
  EXPECT_FALSE(DiskCache(folder()).load("1"));
  EXPECT_TRUE(DiskCache(folder()).load("39"));
}

TEST_F(DiskCacheTest, WithoutRoomNothingIsKeptAndNothingFails) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit full{100, 100};
    setrlimit(RLIMIT_FSIZE, &full);
    const DiskCache cache(folder());
    cache.store(kKey, std::string(1000, 'x'));
    _exit(cache.load(kKey) ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_empty(folder())) << "no part of it is left";
  write(root_ + "/file", "");
  const DiskCache below_a_file(root_ + "/file/cache");
  below_a_file.store(kKey, kBytes);
  EXPECT_FALSE(below_a_file.load(kKey));
  const DiskCache none("");
  none.store(kKey, kBytes);
  EXPECT_FALSE(none.load(kKey));
}

TEST_F(DiskCacheTest, ServesProcessesAndThreadsAtOnce) {
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    const DiskCache cache(folder());
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          const std::string key = std::to_string(i % 10), code(static_cast<size_t>(i % 10) * 1000, 'a');
          cache.store(key, code);
          const auto found = cache.load(key);
          if (!found || *found != code) ++wrong;
        }
      });
    for (std::thread& t : threads) t.join();
    _exit(wrong);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const auto& f : fs::directory_iterator(folder()))
    EXPECT_EQ(f.path().filename().string().size(), 32u) << f.path();
}

TEST(BuildId, IsThere) { EXPECT_GE(build_id().size(), 8u); }

}  // namespace
}  // namespace lazuli::jit
