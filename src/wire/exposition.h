#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace weir::wire {

// Writes metrics in Prometheus' text format: families one after the other, each with its samples.
class Exposition {
 public:
  using Label = std::pair<std::string_view, std::string_view>;
  using Labels = std::initializer_list<Label>;

  void counter(std::string_view name, std::string_view help) { family(name, "counter", help); }
  void gauge(std::string_view name, std::string_view help) { family(name, "gauge", help); }
  void histogram(std::string_view name, std::string_view help) { family(name, "histogram", help); }

  // Adds a sample to the current family. `suffix` (_bucket, _sum, _count) is for histograms.
  template <typename Number>
  void sample(Labels labels, Number value, std::string_view suffix = {}) {
    write(labels, fmt::format("{}", value), suffix);
  }
  template <typename Number>
  void sample(Number value) {
    sample({}, value);
  }

  const std::string& text() const { return text_; }

 private:
  void family(std::string_view name, std::string_view type, std::string_view help);
  void write(Labels labels, std::string_view value, std::string_view suffix);

  std::string text_;
  std::string name_;
};

}  // namespace weir::wire
