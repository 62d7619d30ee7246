// A state file with any bytes overwritten: the engine continues with it, sets it aside, or reports
// why it cannot; and its answers afterwards are valid.
//
// The input: a byte of choices, then changes one after the other. A change is an offset (two
// bytes), a length (one byte), and the bytes to write; or, with the highest bit of the length set,
// the offset to copy them from (two bytes).

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "store/memory/region.h"
#include "weir/engine.h"

namespace {

using namespace weir;
namespace fs = std::filesystem;

void require(bool holds) {
  if (!holds) std::abort();
}

// So small that random changes hit something, and that a run takes no time.
constexpr std::size_t kBytes = 16 << 10;
constexpr std::ptrdiff_t kRecordBytes = 4 << 10;
constexpr int kKeys = 20;
constexpr std::array<std::string_view, 6> kRates = {"bucket", "window", "sliding",
                                                    "log",    "queue",  "nginx"};

const PolicySet& policies() {
  static const PolicySet set = *PolicySet::parse(R"(
policies:
  bucket: { limits: [ 1/h burst 5 ] }
  window: { limits: [ 5/h window ] }
  sliding: { limits: [ 5/h sliding ] }
  log: { limits: [ 5/h sliding exact ], when_full: deny }
  queue: { limits: [ 1/min queue 5 ] }
  nginx: { limits: [ { rate: 1/s, queue: 5, nodelay: true, like: nginx } ], when_full: allow }
  seats: { limits: [ 5 concurrent lease 1h ] }
)");
  return set;
}

// In memory where possible: the fuzzer makes thousands of files a second.
class Folder {
 public:
  Folder() {
    std::string name = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    name += "/weir-fuzz-XXXXXX";
    require(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }

  std::string state() const { return path_ / "state"; }
  // The number of files, and of those that were set aside.
  std::pair<int, int> count() const {
    int files = 0;
    int aside = 0;
    for (const auto& entry : fs::directory_iterator(path_)) {
      ++files;
      aside += entry.path().filename().string().starts_with("state.aside-") ? 1 : 0;
    }
    return {files, aside};
  }
  void clear() const {
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove(entry.path());
  }

 private:
  fs::path path_;
};

const Folder& folder() {
  static const Folder one;
  return one;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

Result<Engine, Error> open(const Clock& clock, std::size_t bytes = kBytes) {
  return Engine::open(
      policies(),
      {.memory = {.bytes = bytes, .record_bytes = kRecordBytes, .state_file = folder().state()},
       .clock = &clock});
}

// A valid file, the same in every process: crashes are reproducible.
std::string make_image() {
  constexpr std::uint64_t seed = 42;
  const auto layout = store::TableLayout::fitting(kBytes, kRecordBytes);
  auto region = store::Region::create_replacement(folder().state(), *layout, seed);
  require(region && !region->replace_file(folder().state()));
  *region = store::Region::anonymous(*layout);  // closes the file
  const ManualClock clock;
  {
    auto engine = open(clock);
    require(static_cast<bool>(engine));
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = "key " + std::to_string(i);
      for (const std::string_view policy : kRates) {
        (void)engine->take({.policy = policy, .key = key, .permits = 1 + i % 3});
      }
      (void)engine->enter({.policy = "seats", .key = key}, "a");
      (void)engine->enter({.policy = "seats", .key = key, .permits = 2}, "b");
    }
  }
  std::string image = read(folder().state());
  require(image.size() <= kBytes && image.size() > kBytes - 1024);
  return image;
}

// ---- Decoding the input

class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::size_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::size_t word() {
    const std::size_t high = byte();
    return high << 8 | byte();
  }
  std::string_view bytes(std::size_t count) {
    const std::string_view some = rest_.substr(0, count);
    rest_.remove_prefix(some.size());
    return some;
  }

 private:
  std::string_view rest_;
};

void change(std::string& image, Input& input) {
  constexpr std::size_t copies = 0x80;
  const std::size_t at = input.word() % image.size();
  const std::size_t most = std::min(copies - 1, image.size() - at);
  const std::size_t count = input.byte();
  if (count < copies) {
    const std::string_view bytes = input.bytes(std::min(count, most));
    image.replace(at, bytes.size(), bytes);
    return;
  }
  const std::string bytes =
      image.substr(input.word() % image.size(), std::min(count - copies, most));
  image.replace(at, bytes.size(), bytes);
}

// ---- Invariants for any content of the file

void sensible(const Verdict& verdict) {
  require(verdict.error.empty() && !verdict.degraded);
  const Decision& decision = verdict.decision;
  require(decision.limit > 0 && decision.remaining <= decision.limit);
  require(decision.reset_after >= Nanos{0} && decision.wait >= Nanos{0});
  require(decision.retry_after >= Nanos{0} || decision.retry_after == kNever);
  if (verdict) require(decision.retry_after == Nanos{0});
}

void use(Engine& engine) {
  for (int i = 0; i < kKeys + 5; ++i) {
    const std::string key = "key " + std::to_string(i);
    const std::string_view policy = kRates[static_cast<std::size_t>(i) % kRates.size()];
    const Request request{.policy = policy, .key = key};
    const Request seats{.policy = "seats", .key = key};
    sensible(engine.peek(request));
    sensible(engine.take(request));
    sensible(engine.enter(seats, i % 2 == 0 ? "a" : "c"));
    if (i % 3 == 0) (void)engine.leave(seats, "b");
    if (i % 5 == 0) sensible(engine.settle({.policy = policy, .key = key, .permits = 3}));
    if (i % 7 == 0) require(!engine.reset(request) && !engine.reset(seats));
    if (i % 11 == 0) require(static_cast<bool>(engine.explain(request)));
  }
  const MemoryUse memory = engine.memory();
  require(memory.live <= memory.slots && memory.record_used <= memory.record_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string valid = make_image();
  std::string image = valid;
  Input input(std::string_view(reinterpret_cast<const char*>(data), size));
  const std::size_t choices = input.byte();
  const bool cut = (choices & 0x03) == 3;
  const std::size_t length = cut ? input.word() : 0;
  const bool other_size = (choices & 0x04) != 0;
  const Nanos later = (choices & 0x08) != 0 ? Nanos{std::chrono::minutes{20}} : Nanos{0};
  while (!input.empty()) change(image, input);
  if (cut) image.resize(std::min(length, image.size()));

  folder().clear();
  write(folder().state(), image);
  ManualClock clock(ManualClock::kStart + later);
  bool kept = false;
  {
    auto engine = open(clock, other_size ? kBytes * 2 : kBytes);
    if (!engine) {
      require(!engine.error().message.empty());
      return 0;
    }
    require(!engine->opening_note().empty());
    const auto [files, aside] = folder().count();
    require(files == 1 + aside && aside <= 1);
    kept = aside == 0;
    require(kept == (engine->opening_note().find("opened again") != std::string::npos));
    use(*engine);
    clock.advance(std::chrono::minutes{10});
    use(*engine);
  }
  // The resulting file is complete, with nothing in it to drop.
  {
    auto engine = open(clock, other_size ? kBytes * 2 : kBytes);
    require(static_cast<bool>(engine));
    require(engine->opening_note().starts_with(folder().state() + " was opened again"));
    require(engine->opening_note().find("dropped") == std::string::npos);
    use(*engine);
  }
  return 0;
}
