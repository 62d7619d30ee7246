#include "store/memory/region.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "files/new_file.h"

namespace weir::store {

namespace {

using files::File;
using files::system_error;

constexpr char kMagic[7] = {'w', 'e', 'i', 'r', 't', 'a', 'b'};
constexpr char kFormat = '2';
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
static_assert(sizeof(Header) <= kPage);

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

std::uint64_t checksum_of(const Header& header) {
  const auto* bytes = reinterpret_cast<const char*>(&header);
  return hash_of({bytes, offsetof(Header, checksum)}, 1).low;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  // Does not fail for so few bytes once the system's random generator is initialized.
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) throw std::bad_alloc();
  return seed;
}

void write_header(Header& header, const TableLayout& layout, std::uint64_t seed) {
  std::copy(std::begin(kMagic), std::end(kMagic), header.magic);
  header.format = kFormat;
  header.seed = seed;
  header.layout = layout;
  header.checksum = checksum_of(header);
}

std::string boot_id() {
  const File file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[40] = {};
  const ssize_t read = file ? ::read(file.get(), text, sizeof text - 1) : 0;
  return {text, static_cast<std::size_t>(std::max<ssize_t>(read, 0))};
}

Result<std::span<std::byte>, Error> map(int fd, std::size_t bytes, const std::string& path) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return Error{system_error("cannot map the state file", path, errno)};
  }
  return std::span(static_cast<std::byte*>(memory), bytes);
}

std::string mebibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// Allocates all blocks of the file now. Otherwise a write to a mapped page would raise SIGBUS when
// the disk is full.
std::optional<Error> allocate(int fd, std::size_t bytes, const std::string& path) {
  struct statvfs disk {};
  const bool known = fstatvfs(fd, &disk) == 0;
  const std::uint64_t left = known ? std::uint64_t{disk.f_bavail} * disk.f_frsize : 0;
  if (known && left < bytes) {
    return Error{"the state file " + path + " needs " + mebibytes(bytes) + ", but the disk has " +
                 mebibytes(left) + " left: free some space, or make the table smaller"};
  }
  if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    return Error{
        system_error("cannot allocate " + mebibytes(bytes) + " for the state file", path, error)};
  }
  return std::nullopt;
}

// True if each part of a table by itself fits into a file of that size. The sum alone is not
// enough, since it may have wrapped around.
bool is_possible(const TableLayout& layout, std::uint64_t size) {
  const std::uint64_t max_rows = size / sizeof(Row);
  return layout.rows >= 1 && layout.rows <= max_rows && layout.overflow_rows >= 1 &&
         layout.overflow_rows <= max_rows && layout.record_bytes <= size &&
         layout.note_bytes <= size;
}

bool has_magic(int fd) {
  char magic[sizeof kMagic] = {};
  return pread(fd, magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) &&
         std::equal(std::begin(kMagic), std::end(kMagic), magic);
}

// True for a file whose creation was interrupted by a kill: the magic is written first.
bool is_unfinished(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && (status.st_size == 0 || has_magic(fd));
}

// The reason why a file with the magic cannot be used; empty if it can.
std::string damage_of(int fd, std::uint64_t size) {
  alignas(Header) std::byte bytes[sizeof(Header)] = {};
  if (pread(fd, bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    return "it is too short to be a state file of weir";
  }
  const Header& header = *reinterpret_cast<const Header*>(bytes);
  if (header.format != kFormat) {
    return std::string("it is of format '") + header.format + "', and this version reads format '" +
           kFormat + "'";
  }
  if (header.checksum != checksum_of(header)) return "its first page is damaged";
  if (header.layout.bytes() != size) {
    return "it has " + std::to_string(size) + " bytes instead of " +
           std::to_string(header.layout.bytes());
  }
  if (!is_possible(header.layout, size)) return "its first page describes an impossible table";
  return {};
}

// Renames the file and fills in the note.
std::optional<Error> set_aside(const std::string& path, const std::string& damage,
                               StateFileReport& opened) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  opened.set_aside =
      path + ".aside-" + std::to_string(now.tv_sec) + "-" + std::to_string(now.tv_nsec);
  if (rename(path.c_str(), opened.set_aside.c_str()) != 0) {
    return Error{system_error("cannot set aside the unusable state file", path, errno)};
  }
  opened.note = path + " was set aside as " + opened.set_aside + " because " + damage +
                "; starting with missing remembered";
  return std::nullopt;
}

}  // namespace

Result<TableLayout, Error> TableLayout::fitting(std::size_t bytes, std::size_t record_bytes,
                                                std::size_t note_bytes) {
  const std::size_t records = round_up(record_bytes, kPage);
  const std::size_t notes = round_up(note_bytes, kPage);
  const std::size_t smallest = kPage + 3 * sizeof(Row) + notes + records;
  if (bytes < smallest) {
    return Error{"a table needs at least " + std::to_string(smallest) + " bytes, not " +
                 std::to_string(bytes)};
  }
  constexpr std::uint64_t too_large = std::uint64_t{1} << 46;
  if (bytes > too_large) {
    return Error{"a table of " + mebibytes(bytes) + " is too large: at most 64 TiB"};
  }
  const std::uint64_t all = (bytes - kPage - records - notes) / sizeof(Row);
  const std::uint64_t overflow = std::max<std::uint64_t>(all / 64, 1);
  return TableLayout{.rows = all - overflow,
                     .overflow_rows = overflow,
                     .record_bytes = records,
                     .note_bytes = notes};
}

Result<TableLayout, Error> TableLayout::for_keys(std::uint64_t keys, std::size_t record_bytes) {
  // The first row overflows when about 82 % of the slots are live, rarely at 79 %. 75 % is safe.
  constexpr std::uint64_t keys_in_100_rows = 75 * Row::kSlots;
  constexpr std::uint64_t extra_rows = 8;  // small tables vary more
  if (keys == 0) return Error{"a table needs room for at least one key"};
  if (keys > std::uint64_t{1} << 40) return Error{"too many keys for one table: at most 2^40"};
  return TableLayout{.rows = keys * 100 / keys_in_100_rows + extra_rows,
                     .overflow_rows = 1,
                     .record_bytes = round_up(record_bytes, kPage)};
}

std::size_t TableLayout::bytes() const {
  return kPage + (rows + overflow_rows) * sizeof(Row) + record_bytes + note_bytes;
}

Region::Region(std::span<std::byte> memory, int fd, std::string path)
    : memory_(memory), fd_(fd), path_(std::move(path)) {}

Region Region::anonymous(const TableLayout& layout) {
  // Huge pages, where available, avoid most TLB misses.
  const std::size_t bytes = layout.bytes();
  const std::size_t align = bytes >= 2 * kHugePage ? kHugePage : kPage;
  const std::size_t reserved = round_up(bytes, kPage) + align;
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = round_up(start, align);
  const std::uintptr_t end = aligned + round_up(bytes, kPage);
  if (aligned > start) munmap(memory, aligned - start);
  if (start + reserved > end) munmap(reinterpret_cast<void*>(end), start + reserved - end);
  auto* data = reinterpret_cast<std::byte*>(aligned);
  if (align == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  write_header(*reinterpret_cast<Header*>(data), layout, random_seed());
  return Region({data, bytes}, -1, {});
}

Result<Region, Error> Region::create_replacement(const std::string& path, const TableLayout& layout,
                                                 std::uint64_t seed) {
  const std::string name = path + ".new";
  auto file = files::create(name, is_unfinished);
  if (!file) return file.error();
  const auto abandon = [&](Error error) {
    unlink(name.c_str());
    return error;
  };
  if (pwrite(file->get(), kMagic, sizeof kMagic, 0) != static_cast<ssize_t>(sizeof kMagic)) {
    return abandon(Error{system_error("cannot write the state file", name, errno)});
  }
  if (auto error = allocate(file->get(), layout.bytes(), path)) return abandon(*error);
  const auto memory = map(file->get(), layout.bytes(), name);
  if (!memory) return abandon(memory.error());
  Region region(*memory, file->release(), name);
  write_header(region.header(), layout, seed);
  return region;
}

std::optional<Error> Region::replace_file(const std::string& path) {
  if (auto error = files::move_over(fd_, path_, path)) return error;
  path_ = path;
  return std::nullopt;
}

Result<bool, Error> Region::move_to_free_path(const std::string& path) {
  auto placed = files::move_if_free(fd_, path_, path);
  if (placed && *placed) path_ = path;
  return placed;
}

void Region::discard() { unlink(path_.c_str()); }

namespace {

enum class FileStatus { usable, missing, changed };

// Called when `path` cannot be opened: finds out whether there is no file.
Result<std::pair<FileStatus, int>, Error> inspect_unopenable(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return std::pair{FileStatus::missing, -1};
  if (!S_ISLNK(status.st_mode)) return std::pair{FileStatus::changed, -1};
  return Error{"the state file " + path +
               " is a symbolic link to a file that does not exist: make its target available, or "
               "remove the link"};
}

// The error for an empty file, or a file of another program.
Error foreign_file(const std::string& path, std::uint64_t size) {
  return Error{path + (size == 0 ? " is empty" : " is not a state file of weir") +
               ", and stays as it is: give `state` the name of a file that does not exist yet, or "
               "move this one away"};
}

Error not_regular(const std::string& path) {
  return Error{"the state file " + path +
               " is not a regular file: give `state` the name of a file that does not exist yet"};
}

// Must be checked before opening: opening a device may have side effects.
bool is_regular(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

// Opens the file at `path`, locks it and validates its first page.
Result<std::pair<FileStatus, int>, Error> inspect(const std::string& path,
                                                  StateFileReport& opened) {
  using Inspected = std::pair<FileStatus, int>;
  if (!is_regular(path)) return not_regular(path);
  File file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file && (errno == ENOENT || errno == ELOOP)) return inspect_unopenable(path);
  if (!file) return Error{system_error("cannot open the state file", path, errno)};
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return not_regular(path);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{
        "the state file " + path +
        " is in use by another process: stop that process, or use another file for this one"};
  }
  if (!files::same_file(file.get(), path)) return Inspected{FileStatus::changed, -1};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (!has_magic(file.get())) return foreign_file(path, size);
  if (const std::string damage = damage_of(file.get(), size); !damage.empty()) {
    if (auto error = set_aside(path, damage, opened)) return *std::move(error);
    return Inspected{FileStatus::missing, -1};
  }
  return Inspected{FileStatus::usable, file.release()};
}

}  // namespace

Result<Region, Error> Region::file(const std::string& path, const TableLayout& layout,
                                   StateFileReport& opened) {
  for (;;) {
    const auto inspected = inspect(path, opened);
    if (!inspected) return inspected.error();
    if (inspected->first == FileStatus::changed) continue;
    if (inspected->first == FileStatus::missing) {
      auto made = create_replacement(path, layout, random_seed());
      if (!made) return made;
      const auto placed = made->move_to_free_path(path);
      if (placed && *placed) return made;
      made->discard();
      if (!placed) return placed.error();
      continue;  // another process has created it first
    }
    File file(inspected->second);
    struct stat status {};
    fstat(file.get(), &status);  // the size has been validated
    // A copy of a state file may be sparse.
    if (const int error = posix_fallocate(file.get(), 0, status.st_size); error != 0) {
      return Error{system_error("cannot fill the holes of the state file", path, error)};
    }
    const auto memory = map(file.get(), static_cast<std::size_t>(status.st_size), path);
    if (!memory) return memory.error();
    Region region(*memory, file.release(), path);
    Header& header = region.header();
    opened.restored = true;
    const bool clean = header.clean.load() != 0;
    const std::string_view boot(header.boot, strnlen(header.boot, sizeof header.boot));
    opened.after_power_cut = !clean && boot_id() != boot;
    return region;
  }
}

Region::Region(Region&& other) noexcept
    : memory_(std::exchange(other.memory_, {})),
      fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

Region::~Region() {
  if (memory_.empty()) return;
  munmap(memory_.data(), memory_.size());
  if (fd_ >= 0) ::close(fd_);
}

std::span<Row> Region::rows() const {
  const TableLayout& layout = header().layout;
  return {reinterpret_cast<Row*>(memory_.data() + kPage), layout.rows + layout.overflow_rows};
}

std::span<std::byte> Region::records() const {
  const TableLayout& layout = header().layout;
  return memory_.subspan(kPage + (layout.rows + layout.overflow_rows) * sizeof(Row),
                         layout.record_bytes);
}

std::span<std::byte> Region::notes() const { return memory_.last(header().layout.note_bytes); }

void Region::mark_in_use() {
  const std::string boot = boot_id();
  header().clean.store(0);
  std::copy_n(boot.begin(), std::min(boot.size(), sizeof header().boot - 1), header().boot);
  // Must be on disk before any other change, so that a power cut is detected.
  if (is_file()) msync(memory_.data(), kPage, MS_SYNC);
}

void Region::close() {
  if (!is_file()) return;
  msync(memory_.data(), memory_.size(), MS_SYNC);
  header().clean.store(1);
  msync(memory_.data(), kPage, MS_SYNC);
}

}  // namespace weir::store
