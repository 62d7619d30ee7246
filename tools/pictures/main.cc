// Draws the pictures of docs/ by running the core: pictures FOLDER.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "pictures.h"

namespace {

struct Picture {
  std::string_view file;
  std::string (*draw)();
};

constexpr Picture kPictures[] = {
    {"window-edge.svg", weir::pictures::window_edge},
    {"debt.svg", weir::pictures::debt},
    {"warmup.svg", weir::pictures::warmup},
    {"queues.svg", weir::pictures::queues},
    {"sliding-estimate.svg", weir::pictures::sliding_estimate},
    {"table.svg", weir::pictures::table},
    {"fleet-uneven.svg", weir::pictures::fleet_uneven},
    {"fleet-change.svg", weir::pictures::fleet_change},
};

bool write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fmt::print(stderr, "pictures: cannot write {}\n", path.string());
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: pictures FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  for (const Picture& picture : kPictures) {
    if (!write(folder / picture.file, picture.draw())) return 1;
  }
}
